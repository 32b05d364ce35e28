import org.apache.paimon.rest.RESTApi;

/** The JSON of REST catalogs, read by Java's own classes and written by its own printer. */
class RestJson {
    private static final String HOME = "org.apache.paimon.";

    private RestJson() {}

    /** The text as Java writes it again, read as the class of this name below org.apache.paimon. */
    static String again(String name, String text) throws Exception {
        return RESTApi.toJson(RESTApi.fromJson(text, Class.forName(HOME + name)));
    }
}
