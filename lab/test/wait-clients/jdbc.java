// needs: org.postgresql:postgresql:42.7.8
// pgjdbc HOST PORT THRESHOLD: eight reads by a statement that gets a name at the use THRESHOLD.
import java.sql.DriverManager;

public class Main {
    public static void main(String[] args) throws Exception {
        // A server that is known to be new gets all settings with the start of the connection.
        String options = "?user=postgres&sslmode=disable&gssEncMode=disable&assumeMinServerVersion=9.4&prepareThreshold=" + args[2];
        try (var db = DriverManager.getConnection("jdbc:postgresql://" + args[0] + ":" + args[1] + "/postgres" + options);
                var read = db.prepareStatement("SELECT ?::int")) {
            for (int key = 0; key < 8; key++) {
                read.setInt(1, key);
                try (var rows = read.executeQuery()) {
                    if (!rows.next() || rows.getInt(1) != key) throw new IllegalStateException("another row");
                }
            }
        }
    }
}
