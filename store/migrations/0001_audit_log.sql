-- The audit log: the source of truth. Every other table is a projection of it and can be rebuilt from it.
create table event (
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

-- Which events have a value: one row per value and 64 events in a row, one bit per event. An index of SQLite's own has an
-- entry per event and question, which was half the cost of recording one. Follows from the events, as every table below.
create table event_index (
    word  text not null check (
        word = 'kind' or word = 'actor' or word = 'project' or word = 'change' or word = 'stage'),
    value any not null,
    block integer not null,  -- the events from 64 * block on
    bits  integer not null,  -- bit n, from the lowest: event 64 * block + n has the value
    primary key (word, value, block)
) strict, without rowid;

-- Every event that is earlier than the one before it. Between two of these, times never fall, so that the events of a
-- span of time are found by halving.
create table clock_step (
    seq    integer primary key,
    before integer not null,  -- the time of the event before
    at     integer not null check (at < before)
) strict;

create trigger event_is_never_updated before update on event
begin
    select raise(abort, 'the audit log is never edited');
end;

create trigger event_is_never_deleted before delete on event
begin
    select raise(abort, 'the audit log is never cut');
end;

-- Free text (titles, names, paths, command lines), detachable: the chain holds its salted hash only.
create table payload (
    seq  integer primary key references event (seq),
    salt blob not null check (length(salt) = 16),
    text text not null
) strict;

-- Which payloads were taken away, and by which event.
create table redaction (
    seq      integer primary key references event (seq),
    by_event integer not null references event (seq)
) strict;

create trigger payload_is_never_updated before update on payload
begin
    select raise(abort, 'a payload is never edited');
end;

create trigger payload_goes_only_by_redaction before delete on payload
when not exists (select 1 from redaction where seq = old.seq)
begin
    select raise(abort, 'a payload goes only by redaction');
end;

-- Signed points of the chain. Not events: signing one must not make another.
create table signed_checkpoint (
    seq        integer primary key references event (seq),
    hash       blob not null check (length(hash) = 32),
    public_key blob not null check (length(public_key) = 32),
    signature  blob not null check (length(signature) = 64)
) strict;
