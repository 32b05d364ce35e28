"""The client of REST catalogs: one request after the other, and nothing of tables.

rest_api      what is read, sent, deleted and listed, by the parts of a path
http_client   one request: signed, sent, sent again where that is safe, its answer judged
answers       what an answer means: a document, or which error
encoding      names in paths, values in queries
auth          who asks: a bearer token, or keys of DLF
dlf_signers   how requests are signed with those keys
dlf_tokens    where keys come from that end
"""
