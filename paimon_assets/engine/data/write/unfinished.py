"""Files of writes that will not be committed: their paths, and their deletion."""

import logging
from collections.abc import Iterable, Iterator

from paimon_assets.engine.contract.commit_message import CommitMessage
from paimon_assets.engine.contract.context import WriteContext
from paimon_assets.engine.data.write.buckets.hash_index import index_path
from paimon_assets.engine.data.write.buckets.row_key_extractor import bucket_path
from paimon_assets.engine.errors import PaimonError
from paimon_assets.engine.fileio.base import FileIO

logger = logging.getLogger(__name__)


def delete_unfinished(file_io: FileIO, paths: Iterable[str], table: str) -> None:
    """Delete files that no snapshot names; a failure of the storage is only logged."""
    for path in paths:
        try:
            file_io.delete_file(path)
        except PaimonError as error:  # a harmless orphan file stays
            logger.warning("could not delete %s, left by a failure on %s: %s", path, table, error)


def written_paths(context: WriteContext, messages: Iterable[CommitMessage]) -> Iterator[str]:
    """Yield the paths of the files that the messages of a write name as new."""
    for message in messages:
        partition, bucket = message.partition, message.bucket
        directory, increment = bucket_path(context, partition, bucket), message.data_increment
        for file in (*increment.new_files, *increment.changelog_files):
            yield from (f"{directory}/{name}" for name in (file.file_name, *file.extra_files))
        for index in increment.new_index_files:
            yield index_path(context, partition, bucket, index.file_name)
