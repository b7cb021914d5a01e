// needs: com.mysql:mysql-connector-j:8.4.0
// Connector/J: statements prepared by the server, cursors, long data in pieces, batches written as one statement, calls, errors; with
// `compress` in compressed packets.
import java.io.*;
import java.sql.*;

public class Main {
    static PreparedStatement set(PreparedStatement statement, Object... values) throws SQLException {
        for (int at = 0; at < values.length; at++) statement.setObject(at + 1, values[at]);
        return statement;
    }

    public static void main(String[] args) throws Exception {
        var options = args.length > 1 ? "&useCompression=true" : "";
        var db = DriverManager.getConnection("jdbc:mysql://127.0.0.1:" + args[0]
            + "/bench?user=root&sslMode=DISABLED&useServerPrepStmts=true&cachePrepStmts=true&useCursorFetch=true" + options);
        var plain = db.createStatement();
        plain.execute("DROP TABLE IF EXISTS driver_java");
        plain.execute("CREATE TABLE driver_java (id INT PRIMARY KEY, name LONGTEXT, at DATETIME(6), raw BLOB)");
        var insert = db.prepareStatement("INSERT INTO driver_java VALUES (?, ?, ?, ?)");
        for (int id = 0; id < 20; id++) {
            set(insert, id, "name " + id, new Timestamp(1_700_000_000_000L + id), new byte[id]).executeUpdate();
        }
        insert.setInt(1, 20);
        insert.setCharacterStream(2, new StringReader("x".repeat(100_000)));
        insert.setNull(3, Types.TIMESTAMP);
        insert.setBinaryStream(4, new ByteArrayInputStream(new byte[30_000]));
        insert.executeUpdate();
        for (int id = 100; id < 150; id++) {
            set(insert, id, null, null, null).addBatch();
        }
        insert.executeBatch();
        var select = db.prepareStatement("SELECT * FROM driver_java WHERE id = ?");
        for (int id = 0; id < 20; id++) {
            var row = set(select, id).executeQuery();
            if (!row.next() || !row.getString(2).equals("name " + id)) throw new IllegalStateException("row " + id);
            row.close();
        }
        var pages = db.prepareStatement("SELECT id FROM driver_java");
        pages.setFetchSize(10);
        int rows = 0;
        for (var result = pages.executeQuery(); result.next(); ) rows++;
        plain.execute("DROP PROCEDURE IF EXISTS driver_two");
        plain.execute("CREATE PROCEDURE driver_two() BEGIN SELECT 1; SELECT 2; END");
        plain.execute("CALL driver_two()");
        int results = 1;
        while (plain.getMoreResults()) results++;
        int failed = 0;
        for (var text : new String[] {"SELECT * FROM nothing_here", "INSERT INTO driver_java (id) VALUES (1)"})
            try { plain.execute(text); } catch (SQLException expected) { failed++; }
        if (rows != 71 || results != 2 || failed != 2) throw new IllegalStateException(rows + " " + results + " " + failed);
        System.out.println("{\"driver\": \"Connector/J\", \"errors\": {\"SELECT\": 1, \"INSERT\": 1}, \"asked\": {\"DROP\": 2, \"CREATE\": 2, "
            + "\"INSERT\": 72, \"SELECT\": 23, \"CALL\": 1, \"SET\": 2, \"FETCH\": 8, \"LONG DATA\": 2, \"STMT RESET\": 50}, "
            // Of the procedure.
            + "\"server\": {\"Com_select\": 2}}");
        System.in.readAllBytes();
        db.close();
    }
}
