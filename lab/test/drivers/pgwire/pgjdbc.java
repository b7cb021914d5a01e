// needs: org.postgresql:postgresql:42.7.8
// pgjdbc: statements that get a name and binary results at their fifth use, batches, fetch size, COPY, errors.
import java.io.*;
import java.sql.*;
import org.postgresql.PGConnection;

public class Main {
    public static void main(String[] args) throws Exception {
        var db = DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + args[0] + "/bench?user=postgres&sslmode=disable");
        var plain = db.createStatement();
        plain.execute("DROP TABLE IF EXISTS driver_java");
        plain.execute("CREATE TABLE driver_java (id int PRIMARY KEY, name text, list int[])");
        var insert = db.prepareStatement("INSERT INTO driver_java VALUES (?, ?, ?)");
        for (int id = 0; id < 20; id++) {
            insert.setInt(1, id);
            insert.setString(2, "name " + id);
            insert.setArray(3, db.createArrayOf("int4", new Object[] {id, null}));
            insert.executeUpdate();
        }
        for (int id = 100; id < 300; id++) {
            insert.setInt(1, id);
            insert.setString(2, null);
            insert.setArray(3, db.createArrayOf("int4", new Object[] {}));
            insert.addBatch();
        }
        insert.executeBatch();
        var select = db.prepareStatement("SELECT * FROM driver_java WHERE id = ?");
        for (int id = 0; id < 20; id++) {
            select.setInt(1, id);
            var row = select.executeQuery();
            if (!row.next() || !row.getString(2).equals("name " + id)) throw new IllegalStateException("row " + id);
        }
        db.setAutoCommit(false);
        var pages = db.prepareStatement("SELECT id FROM driver_java");
        pages.setFetchSize(50);
        int rows = 0;
        for (var result = pages.executeQuery(); result.next(); ) rows++; // 220 rows: 5 portions
        db.commit();
        db.setAutoCommit(true);
        var copy = ((PGConnection) db).getCopyAPI();
        copy.copyIn("COPY driver_java (id, name) FROM STDIN WITH (FORMAT csv)", new StringReader("1000,\"a,b\"\n1001,\n"));
        var out = new ByteArrayOutputStream();
        copy.copyOut("COPY driver_java TO STDOUT WITH (FORMAT binary)", out);
        var big = db.createStatement().executeQuery("SELECT repeat('x', 700000)");
        big.next();
        int failed = 0;
        try { copy.copyIn("COPY driver_java (id) FROM STDIN", new StringReader("1\n")); } catch (SQLException expected) { failed++; }
        for (var text : new String[] {"SELECT * FROM nothing_here", "SELECT 1 / 0"})
            try { plain.execute(text); } catch (SQLException expected) { failed++; }
        var two = db.createStatement();
        two.execute("SELECT 1; SELECT 2"); // two statements, each with its own Parse, Bind and Execute
        if (rows != 220 || failed != 3 || big.getString(1).length() != 700_000 || out.size() < 5000)
            throw new IllegalStateException(rows + " " + failed + " " + out.size());
        System.out.printf("{\"driver\": \"pgjdbc %s\", \"errors\": {\"SELECT\": 2, \"COPY\": 1}, \"server\": {\"SELECT\": -4}, \"asked\": {\"DROP\": 1, \"CREATE\": 1, "
            + "\"INSERT\": 220, \"SELECT\": %d, \"COPY\": 3, \"BEGIN\": 1, \"COMMIT\": 1}}%n", org.postgresql.util.DriverInfo.DRIVER_VERSION,
            20 + 5 + 1 + 2 + 2);
        System.in.readAllBytes();
        db.close();
    }
}
