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

-- One index per question people ask. Each ends in the time, so that "the latest of these" needs no sorting.
create index event_by_time on event (at);
create index event_by_kind on event (kind, at);
create index event_by_actor on event (actor, at) where actor is not null;
create index event_by_project on event (project, at) where project is not null;
create index event_by_change on event (change, at) where change is not null;
create index event_by_stage on event (stage, at) where stage is not null;

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
