"""Files of writes that nobody will commit: which there are, and deleting them."""

import logging
from collections.abc import Iterable, Iterator

from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.write.buckets.row_key_extractor import bucket_path
from paimon_assets.engine.data.write.files.hash_index import index_path
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO

logger = logging.getLogger(__name__)


def delete_unfinished(file_io: FileIO, paths: Iterable[str], table: str) -> None:
    """Delete files that no snapshot will name, as far as the storage lets us."""
    for path in paths:
        try:
            file_io.delete_file(path)
        except PaimonError as error:  # an orphan stays; it harms nobody
            logger.warning("could not delete %s, left by a failure on %s: %s", path, table, error)


def written_paths(context: WriteContext, messages: Iterable[CommitMessage]) -> Iterator[str]:
    """Yield the paths of the files that the messages of a write name as new."""
    for message in messages:
        partition, bucket = message.partition, message.bucket
        directory, made = bucket_path(context, partition, bucket), message.data_increment
        for file in (*made.new_files, *made.changelog_files):
            yield from (f"{directory}/{name}" for name in (file.file_name, *file.extra_files))
        for index in made.new_index_files:
            yield index_path(context, partition, bucket, index.file_name)
