-- What all migrations together make, for a database that is new. Made of them, not written by hand: the test
-- StoreSchema.ANewDatabaseIsWhatTheMigrationsMake says how.
CREATE TABLE event (
    seq            integer primary key,  -- from 1, without gaps
    at             integer not null,     -- milliseconds since 1970, UTC; the order is seq's, clocks may jump
    batch          integer not null,     -- events of the same transaction before this one
    kind           text not null,
    actor          integer,
    project        integer,
    change         integer,
    promotion      integer,
    stage          text,
    body           text not null,        -- flat JSON: ids, digests, states, numbers, codes; never free text
    payload_digest blob,                 -- of the salted payload, if there is one; stays when the payload goes
    hash           blob not null check (length(hash) = 32)  -- of the previous hash and everything above
) strict;
CREATE TABLE event_index (
    word  text not null check (
        word = 'kind' or word = 'actor' or word = 'project' or word = 'change' or word = 'stage'),
    value any not null,
    block integer not null,  -- the events from 64 * block on
    bits  integer not null,  -- bit n, from the lowest: event 64 * block + n has the value
    primary key (word, value, block)
) strict, without rowid;
CREATE TABLE clock_step (
    seq    integer primary key,
    before integer not null,  -- the time of the event before
    at     integer not null check (at < before)
) strict;
CREATE TRIGGER event_is_never_updated before update on event
begin
    select raise(abort, 'the audit log is never edited');
end;
CREATE TRIGGER event_is_never_deleted before delete on event
begin
    select raise(abort, 'the audit log is never cut');
end;
CREATE TABLE payload (
    seq  integer primary key references event (seq),
    salt blob not null check (length(salt) = 16),
    text text not null
) strict;
CREATE TABLE redaction (
    seq      integer primary key references event (seq),
    by_event integer not null references event (seq)
) strict;
CREATE TRIGGER payload_is_never_updated before update on payload
begin
    select raise(abort, 'a payload is never edited');
end;
CREATE TRIGGER payload_goes_only_by_redaction before delete on payload
when not exists (select 1 from redaction where seq = old.seq)
begin
    select raise(abort, 'a payload goes only by redaction');
end;
CREATE TABLE signed_checkpoint (
    seq        integer primary key references event (seq),
    hash       blob not null check (length(hash) = 32),
    public_key blob not null check (length(public_key) = 32),
    signature  blob not null check (length(signature) = 64)
) strict;
CREATE TABLE actor (
    id   integer primary key,
    kind text not null check (kind = 'person' or kind = 'agent' or kind = 'daemon' or kind = 'ci'),
    seq  integer not null  -- its payload has the name
) strict;
CREATE TABLE project (
    id     integer primary key,
    device integer not null,
    inode  integer not null,
    seq    integer not null
, key text, path_seq integer) strict;
CREATE INDEX project_by_inode on project (inode, device);
CREATE TABLE trusted_rules (
    project integer primary key references project (id),
    rules   blob not null check (length(rules) = 32),  -- digest of the file set
    files   blob not null check (length(files) = 32),  -- the object that holds the files
    actor   integer not null references actor (id),
    seq     integer not null
) strict;
CREATE TABLE change (
    id       integer primary key,
    project  integer not null references project (id),
    actor    integer not null references actor (id),
    sponsor  integer references actor (id),
    revision integer not null check (revision >= 1),  -- the latest
    seq      integer not null
) strict;
CREATE INDEX change_by_project on change (project, id);
CREATE TABLE revision (
    change     integer not null references change (id),
    number     integer not null check (number >= 1),
    change_set blob not null check (length(change_set) = 32),  -- an object
    base       blob not null check (length(base) = 32),
    patch      blob not null check (length(patch) = 32),
    seq        integer not null,
    primary key (change, number)
) strict, without rowid;
CREATE TABLE promotion_edge (
    from_state text not null,
    to_state   text not null,
    primary key (from_state, to_state)
) strict, without rowid;
CREATE TABLE promotion (
    id        integer primary key,
    project   integer not null references project (id),
    change    integer not null references change (id),
    revision  integer not null,
    stage     text not null,
    state     text not null check (
        state = 'queued' or state = 'waiting' or state = 'checking' or state = 'applying'
        or state = 'verifying' or state = 'soaking' or state = 'promoted' or state = 'rejected'
        or state = 'superseded' or state = 'stale' or state = 'expired' or state = 'cancelled'
        or state = 'rolling-back' or state = 'rolled-back' or state = 'stuck'),
    finished  integer not null check (finished = 0 or finished = 1),  -- no edge leads out of the state
    cause     text not null check (
        cause = 'proceeded' or cause = 'passed' or cause = 'failed' or cause = 'errored'
        or cause = 'timed-out' or cause = 'cancelled' or cause = 'inconclusive'),
    rules     blob not null check (length(rules) = 32),
    undoes    integer references promotion (id),
    opened_at integer not null,
    moved_at  integer not null,
    seq       integer not null, target text, checkpoint blob check (length(checkpoint) = 32), tree blob check (length(tree) = 32), previous integer references promotion (id), previous_tree blob check (length(previous_tree) = 32), base blob check (length(base) = 32), evidence blob check (length(evidence) = 32), opened_boot text, opened_uptime integer, steps blob check (length(steps) = 32), goal text, place integer, paths integer check (paths >= 0),  -- the last event that moved it
    foreign key (change, revision) references revision (change, number)
) strict;
CREATE INDEX promotion_by_change on promotion (change, id);
CREATE INDEX promotion_unfinished on promotion (project, stage, id) where finished = 0;
CREATE TRIGGER promotion_starts_queued before insert on promotion when new.state <> 'queued'
begin
    select raise(abort, 'a promotion starts as queued');
end;
CREATE TRIGGER promotion_moves_along_edges before update of state on promotion
when not exists (select 1 from promotion_edge where from_state = old.state and to_state = new.state)
begin
    select raise(abort, 'not a legal step of a promotion');
end;
CREATE TABLE check_result (
    seq       integer primary key,
    promotion integer not null references promotion (id),
    name      text not null,
    verdict   text not null check (
        verdict = 'passed' or verdict = 'failed' or verdict = 'errored' or verdict = 'timed-out'
        or verdict = 'cancelled' or verdict = 'inconclusive'),
    evidence  blob not null check (length(evidence) = 32),
    exit_code integer,
    wall_ms   integer not null,
    log       blob check (length(log) = 32)  -- an object
, phase text not null default 'before' check (phase = 'before' or phase = 'after'), execution integer references execution (id), asked blob check (length(asked) = 32), definition blob check (length(definition) = 32), reused integer references promotion (id), outputs blob check (length(outputs) = 32), built_of blob check (length(built_of) = 32)) strict;
CREATE INDEX check_result_by_promotion on check_result (promotion);
CREATE TABLE sandbox (
    id          integer primary key,
    project     integer not null references project (id),
    actor       integer not null references actor (id),
    kind        text not null check (kind = 'transient' or kind = 'kept'),
    ended       text check (
        ended = 'discarded' or ended = 'removed' or ended = 'expired' or ended = 'reaped' or ended = 'failed'),
    base        text,              -- a commit; null: the directory as it was
    since_s     integer not null,  -- the file system's clock before the directory was first shown inside
    since_ns    integer not null,
    layer       integer not null,  -- takes the changes; `layer.sandbox` and this point at each other
    forked_from integer references sandbox (id),
    owner       text,              -- transient ones: boot, pid namespace, pid, start time
    lifetime_ms integer not null,  -- kept ones: after the last use
    created_at  integer not null,
    used_at     integer not null,
    ended_at    integer,
    change_set  blob check (length(change_set) = 32),  -- an object
    name_seq    integer,           -- the event whose payload has the name
    seq         integer not null   -- the event that made it: its payload has the directory
, system integer not null default 0 check (system = 0 or system = 1)) strict;
CREATE INDEX sandbox_living on sandbox (kind, id) where ended is null;
CREATE TABLE layer (
    id      integer primary key,
    below   integer references layer (id),  -- null: the base itself
    sandbox integer not null references sandbox (id),
    frozen  integer not null check (frozen = 0 or frozen = 1),
    used    integer not null check (used = 0 or used = 1),  -- a command may have written to it
    seq     integer not null
) strict;
CREATE TABLE snapshot (
    id       integer primary key,
    sandbox  integer not null references sandbox (id),
    layer    integer not null references layer (id),
    taken_at integer not null,
    removed  integer not null check (removed = 0 or removed = 1),
    seq      integer not null  -- its payload has the name
) strict;
CREATE INDEX snapshot_by_sandbox on snapshot (sandbox, id) where removed = 0;
CREATE TABLE execution (
    id           integer primary key,
    sandbox      integer not null references sandbox (id),
    state        text not null check (state = 'running' or state = 'finished' or state = 'lost'),
    owner        text not null,  -- the process that waits for it: boot, pid namespace, pid, start time
    backend      text not null,
    guarantees   text not null,
    without      text not null,  -- of the floor, what was given up
    verdict      text check (
        verdict = 'ok' or verdict = 'failed' or verdict = 'timeout' or verdict = 'oom' or verdict = 'killed'
        or verdict = 'limit' or verdict = 'setup-failed'),
    exit_code    integer,
    signal       integer,
    stdout       blob check (length(stdout) = 32),  -- objects; null where nothing was written
    stderr       blob check (length(stderr) = 32),
    stdout_bytes integer not null,
    stderr_bytes integer not null,
    truncated    integer not null check (truncated = 0 or truncated = 1),
    started_at   integer not null,
    wall_ms      integer not null,
    cpu_ms       integer not null,
    peak_memory  integer,
    limits       text not null,
    seq          integer not null  -- the event that started it: its payload has the command line
, services blob check (length(services) = 32), network text check (network = 'none' or network = 'by-name' or network = 'host'), side_effects text, finished_seq integer) strict;
CREATE INDEX execution_by_sandbox on execution (sandbox, id);
CREATE INDEX execution_running on execution (id) where state = 'running';
CREATE TABLE stage_state (
    project   integer not null references project (id),
    stage     text not null,
    promotion integer references promotion (id),       -- that brought the tree; null: adopted
    tree      blob check (length(tree) = 32),
    stuck     integer references promotion (id),       -- closed until somebody looked: its rollback failed
    attention integer references promotion (id),       -- its rollback left somebody's edits in place
    seq       integer not null,
    primary key (project, stage)
) strict, without rowid;
CREATE TABLE target (
    name      text primary key,
    fence     integer not null check (fence >= 1),
    promotion integer references promotion (id),  -- at work there; null: nobody
    seq       integer not null
) strict, without rowid;
CREATE TABLE approval (
    id        integer primary key,
    project   integer not null references project (id),
    change    integer not null references change (id),
    revision  integer not null,
    stage     text not null,
    actor     integer not null references actor (id),
    rules     blob not null check (length(rules) = 32),
    base      blob not null check (length(base) = 32),
    evidence  blob check (length(evidence) = 32),  -- null: given before anything was checked
    roles     text not null,                       -- held when it was given, with commas between
    given_at  integer not null,
    withdrawn integer not null check (withdrawn = 0 or withdrawn = 1),
    used_by   integer references promotion (id),
    seq       integer not null,
    check (used_by is null or withdrawn = 0),
    foreign key (change, revision) references revision (change, number)
) strict;
CREATE INDEX approval_by_change on approval (change, stage);
CREATE TABLE hold (
    seq           integer primary key,
    project       integer not null references project (id),
    stage         text,
    change        integer references change (id),
    patch         blob check (length(patch) = 32),  -- of the change: a rebase of it is held, too
    only_machines integer not null check (only_machines = 0 or only_machines = 1),
    promotion     integer references promotion (id),  -- whose failure it was; null: a person's own
    actor         integer not null references actor (id),
    held_at       integer not null,
    ends_at       integer,
    check (stage is not null or change is not null)
) strict;
CREATE INDEX hold_by_project on hold (project);
CREATE TABLE stage_pin (
    project   integer not null references project (id),
    stage     text not null,
    change    integer not null references change (id),
    revision  integer,  -- null: any
    actor     integer not null references actor (id),
    pinned_at integer not null,
    seq       integer not null,
    primary key (project, stage)
) strict, without rowid;
CREATE TABLE veto (
    seq        integer primary key,
    project    integer not null references project (id),
    change     integer not null references change (id),
    change_set blob not null check (length(change_set) = 32),
    patch      blob not null check (length(patch) = 32),
    stage      text,  -- null: any
    actor      integer not null references actor (id),
    vetoed_at  integer not null
) strict;
CREATE INDEX veto_by_project on veto (project);
CREATE TABLE halt (
    seq       integer primary key,
    project   integer references project (id),  -- null: every one
    actor     integer not null references actor (id),
    halted_at integer not null
) strict;
CREATE TABLE gate_override (
    seq       integer primary key,
    promotion integer not null references promotion (id),
    gate      text not null,
    actor     integer not null references actor (id),
    roles     text not null,
    given_at  integer not null
) strict;
CREATE INDEX gate_override_by_promotion on gate_override (promotion);
CREATE TABLE race (
    id         integer primary key,
    project    integer not null references project (id),
    actor      integer not null references actor (id),
    owner      text not null,  -- boot, pid namespace, pid, start time: without an end, it is running or was lost
    outcome    text check (outcome = 'won' or outcome = 'no-winner' or outcome = 'moved' or outcome = 'cancelled'),
    change     integer references change (id),  -- the winner's
    started_at integer not null,
    ended_at   integer,
    seq        integer not null  -- the last event about it: its payload has the candidates
) strict;
CREATE INDEX promotion_by_stage on promotion (project, stage, id);
CREATE INDEX check_result_by_question on check_result (asked) where verdict = 'passed' and reused is null;
CREATE TABLE watch (
    promotion     integer primary key references promotion (id),
    phase         text not null check (phase = 'soak' or phase = 'monitor'),
    began_at      integer not null,
    began_boot    text not null,
    began_uptime  integer not null,
    counted_ms    integer not null check (counted_ms >= 0),  -- in which the checks ran on schedule
    gap_ms        integer not null check (gap_ms >= 0),      -- in which they did not
    looked_at     integer not null,                          -- as far as the two numbers reach
    looked_boot   text not null,
    looked_uptime integer not null,
    ended         integer not null check (ended = 0 or ended = 1),
    seq           integer not null
) strict;
CREATE INDEX watch_going_on on watch (phase, promotion) where ended = 0;
CREATE TABLE step (
    promotion integer not null references promotion (id),  -- for which it was run; an undo moves the rows of what it undoes
    name      text not null,
    number    integer not null check (number >= 1),        -- its place in the order
    state     text not null check (state in
        ('running', 'done', 'failed', 'not-run', 'undoing', 'undone', 'undo-failed')),
    runs      integer not null check (runs >= 0),          -- how often it was begun
    exit_code integer,
    wall_ms   integer,
    log       blob check (length(log) = 32),               -- an object: what it printed last
    moved_at  integer not null,
    seq       integer not null,                            -- its payload has the reason
    primary key (promotion, name)
) strict, without rowid;
CREATE INDEX check_result_by_origin on check_result (built_of)
    where built_of is not null;
CREATE INDEX promotion_by_end on promotion (project, stage, moved_at) where finished = 1;
CREATE INDEX promotion_line on promotion (project, stage, place) where finished = 0;
CREATE INDEX promotion_active on promotion (project, stage, id) where finished = 0 and state <> 'waiting';
CREATE TABLE sandbox_worker (
    sandbox integer not null references sandbox (id),
    actor   integer not null references actor (id),
    primary key (sandbox, actor)
) strict, without rowid;
CREATE TABLE maker (
    change   integer not null references change (id),
    revision integer not null,
    actor    integer not null references actor (id),
    sponsor  integer references actor (id),
    seq      integer not null,
    primary key (change, revision, actor)
) strict, without rowid;
CREATE INDEX project_by_key on project (key);
