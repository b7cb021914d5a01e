import java.io.ByteArrayInputStream;
import java.io.StringWriter;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;

/** pgjdbc: server-side statements, batches, fetch sizes, generated keys, COPY. Usage: Session URL [ROWS]. */
public class Session {
  public static void main(String[] args) throws Exception {
    int rows = args.length > 1 ? Integer.parseInt(args[1]) : 1000;
    try (Connection db = DriverManager.getConnection(args[0])) {
      try (Statement s = db.createStatement()) {
        s.execute("drop table if exists jdbc; create table jdbc (id serial, n int, name text, tags int[])");
      }
      String insert = "insert into jdbc (n, name, tags) values (?, ?, ?)";
      try (PreparedStatement p = db.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
        for (int i = 0; i < 20; i++) {
          p.setInt(1, i);
          p.setString(2, "name " + i);
          p.setArray(3, db.createArrayOf("int4", new Integer[] {i, i + 1}));
          p.addBatch();
        }
        p.executeBatch();
      }
      try (PreparedStatement p = db.prepareStatement("select name, tags from jdbc where n = ?")) {
        for (int i = 0; i < 12; i++) {
          p.setInt(1, i);
          try (ResultSet r = p.executeQuery()) {
            r.next();
            r.getArray(2);
          }
        }
      }
      var copy = db.unwrap(PGConnection.class).getCopyAPI();
      String text = "7\tseven\\tth\t{7}\n".repeat(rows);
      long in = copy.copyIn("copy jdbc (n, name, tags) from stdin", new ByteArrayInputStream(text.getBytes()));
      in += copy.copyIn("copy jdbc (n, name) from stdin csv", new ByteArrayInputStream("8,\"a, \"\"b\"\"\"\n".repeat(rows).getBytes()));
      String failed = "";
      try {
        copy.copyIn("copy jdbc (n) from stdin", new ByteArrayInputStream("x\n".repeat(100000).getBytes()));
      } catch (SQLException e) {
        failed = e.getSQLState();
      }
      CopyIn given = copy.copyIn("copy jdbc (n) from stdin");
      given.writeToCopy("1\n".getBytes(), 0, 2);
      given.cancelCopy();
      StringWriter out = new StringWriter();
      copy.copyOut("copy (select n, name from jdbc) to stdout csv", out);
      db.setAutoCommit(false);
      int read = 0;
      try (PreparedStatement p = db.prepareStatement("select id from jdbc limit 35")) {
        p.setFetchSize(10);
        try (ResultSet r = p.executeQuery()) {
          while (r.next()) read++;
        }
      }
      db.commit();
      try (PreparedStatement p = db.prepareStatement("select 1 / ?")) {
        p.setInt(1, 0);
        p.executeQuery();
      } catch (SQLException e) {
        failed += " " + e.getSQLState();
      }
      db.rollback();
      System.out.println("{\"in\": " + in + ", \"failed\": \"" + failed + "\", \"out\": " + out.toString().length() + ", \"read\": " + read + "}");
    }
  }
}
