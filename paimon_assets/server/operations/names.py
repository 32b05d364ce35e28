"""Tags, branches and consumers."""

import datetime as dt

from paimon_assets.engine.codec.rest.documents import (
    ConsumerInfo,
    CreateBranchRequest,
    CreateTagRequest,
    ListBranchesResponse,
    ListConsumersResponse,
    ListTagsResponse,
    RenameBranchRequest,
    ResetConsumerRequest,
    TagResponse,
)
from paimon_assets.engine.control.managers.numbered_files import prefixed_files
from paimon_assets.engine.errors import NotFoundError
from paimon_assets.engine.spec.options.option import parse_duration_ms
from paimon_assets.engine.spec.paths import TAG_PREFIX
from paimon_assets.server.principals import Action
from paimon_assets.server.request import Request, bad_request
from paimon_assets.server.routes import Answer
from paimon_assets.server.service import Service


def list_tags(service: Service, request: Request) -> Answer:
    """List the names of tags."""
    store = service.table(request, Action.DESCRIBE).store
    page, prefix = request.page(), request.query.get("tagNamePrefix", "")
    names = prefixed_files(store.file_io, store.paths.tag_directory, TAG_PREFIX)
    found, token = page.of(sorted(name for name in names if name.startswith(prefix)))
    return ListTagsResponse(tags=tuple(found), next_page_token=token).to_json()


def create_tag(service: Service, request: Request) -> Answer:
    """Give a snapshot a name."""
    table = service.table(request, Action.UPDATE).managed(service)
    asked = request.read(CreateTagRequest)
    request.noted["tag"] = asked.tag_name
    snapshots = table.store.snapshots
    if asked.snapshot_id is None:
        snapshot = table.store.newest()
        if snapshot is None:
            raise NotFoundError(
                f"Table '{table.identifier}' has no snapshot yet.", kind="snapshot-not-found"
            )
    else:
        snapshot = snapshots.snapshot(asked.snapshot_id)
    retained, text = None, asked.time_retained
    if text is not None and text.strip():
        try:
            retained = dt.timedelta(milliseconds=parse_duration_ms(text))
        except (ValueError, OverflowError) as error:
            raise bad_request(f"timeRetained {text!r} is no duration such as '1 d'.") from error
    table.store.tags.create(
        asked.tag_name, snapshot, time_retained=retained, ignore_if_exists=asked.ignore_if_exists
    )
    return None


def get_tag(service: Service, request: Request) -> Answer:
    """Answer a tag."""
    tag = service.table(request, Action.DESCRIBE).store.tags.get(request.names["tag"])
    created, retained = tag.create_time, tag.time_retained
    return TagResponse(
        tag_name=tag.name,
        snapshot=tag.snapshot,
        tag_create_time=None if created is None else int(created.timestamp() * 1000),
        tag_time_retained=None if retained is None else f"PT{int(retained.total_seconds())}S",
    ).to_json()


def delete_tag(service: Service, request: Request) -> Answer:
    """Delete a tag, with the files that only it kept."""
    service.table(request, Action.UPDATE).managed(service).table.tags.delete(request.names["tag"])
    return None


def list_branches(service: Service, request: Request) -> Answer:
    """List the names of branches but main."""
    names = service.table(request, Action.DESCRIBE).store.branches.list()
    return ListBranchesResponse(branches=tuple(names)).to_json()


def create_branch(service: Service, request: Request) -> Answer:
    """Make a branch, empty or from a tag."""
    table = service.table(request, Action.UPDATE).managed(service)
    asked = request.read(CreateBranchRequest)
    request.noted["branch"] = asked.branch
    table.store.branches.create(asked.branch, tag=asked.from_tag or None)
    return None


def drop_branch(service: Service, request: Request) -> Answer:
    """Delete a branch."""
    table = service.table(request, Action.UPDATE).managed(service)
    table.store.branches.delete(request.names["branch"])
    return None


def rename_branch(service: Service, request: Request) -> Answer:
    """Give a branch another name."""
    table = service.table(request, Action.UPDATE).managed(service)
    asked = request.read(RenameBranchRequest)
    request.noted["target"] = asked.to_branch
    table.store.branches.rename(request.names["branch"], asked.to_branch)
    return None


def forward_branch(service: Service, request: Request) -> Answer:
    """Make the main branch equal to a branch."""
    table = service.table(request, Action.UPDATE).managed(service)
    table.store.branches.fast_forward(request.names["branch"])
    return None


def list_consumers(service: Service, request: Request) -> Answer:
    """List consumers and the next snapshot of each."""
    found = service.table(request, Action.DESCRIBE).store.consumers.list()
    names, token = request.page().of(sorted(found))
    consumers = tuple(ConsumerInfo(consumer_id=n, next_snapshot=found[n]) for n in names)
    return ListConsumersResponse(consumers=consumers, next_page_token=token).to_json()


def reset_consumer(service: Service, request: Request) -> Answer:
    """Let a consumer continue at a snapshot, or forget it."""
    consumers = service.table(request, Action.UPDATE).managed(service).store.consumers
    asked = request.read(ResetConsumerRequest)
    request.noted["consumer"] = asked.consumer_id
    if asked.next_snapshot_id is None:
        consumers.delete(asked.consumer_id)
    else:
        consumers.reset(asked.consumer_id, asked.next_snapshot_id)
    return None
