import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.RESTToken;
import org.apache.paimon.rest.auth.AuthProvider;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.auth.DLFAuthProvider;
import org.apache.paimon.rest.auth.DLFDefaultSigner;
import org.apache.paimon.rest.auth.DLFToken;
import org.apache.paimon.rest.auth.RESTAuthParameter;
import org.apache.paimon.rest.responses.ConfigResponse;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** The server that Java Paimon tests its own client with; see tests/testkit/oracle.py for the pipe. */
public class RestServer {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Signs again what a client says it has signed. */
    private static class Dlf implements AuthProvider {
        @Override
        public Map<String, String> mergeAuthHeader(
                Map<String, String> headers, RESTAuthParameter asked) {
            try {
                DLFToken token = new DLFToken("AKID", "AKSECRET", null, null);
                Map<String, String> all = new LinkedHashMap<>(headers);
                String signed =
                        new DLFDefaultSigner("cn-hangzhou").authorization(asked, token, "", headers);
                all.put(DLFAuthProvider.DLF_AUTHORIZATION_HEADER_KEY, signed);
                return all;
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        Map<String, String> defaults = new LinkedHashMap<>();
        defaults.put("prefix", "paimon");
        defaults.put("header.server-header", "wanted");
        defaults.put("data-token.enabled", arguments[2]);
        defaults.put("warehouse", "w");
        ConfigResponse config = new ConfigResponse(defaults, new LinkedHashMap<>());
        AuthProvider who = arguments[1].equals("dlf") ? new Dlf() : new BearTokenAuthProvider("letmein");
        RESTCatalogServer server = new RESTCatalogServer(arguments[0], who, config, "w");
        server.start();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("result", answer(server, JSON.readTree(line)));
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer.put("error", trace.toString());
            }
            answers.write((JSON.writeValueAsString(answer) + "\n").getBytes("UTF-8"));
            answers.flush();
        }
        server.shutdown();
        System.exit(0);
    }

    private static Object answer(RESTCatalogServer server, JsonNode request) throws Exception {
        switch (request.get("command").asText()) {
            case "url":
                return server.getUrl();
            case "lose_answer":
                RESTCatalogServer.commitSuccessThrowException = true;
                return null;
            case "forbid":
                server.addNoPermissionTable(Identifier.fromString(request.get("table").asText()));
                return null;
            case "columns":
                server.addTableColumnAuth(
                        Identifier.fromString(request.get("table").asText()),
                        JSON.convertValue(request.get("columns"), List.class));
                return null;
            case "token":
                Map<String, String> token = JSON.convertValue(request.get("token"), Map.class);
                server.setDataToken(
                        Identifier.fromString(request.get("table").asText()),
                        new RESTToken(token, request.get("expires").asLong()));
                return null;
            default:
                throw new IllegalArgumentException("unknown command");
        }
    }
}
