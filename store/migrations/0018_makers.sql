-- Who worked in a kept sandbox: ran something there or put files into it, or did so in what it was forked from.
create table sandbox_worker (
    sandbox integer not null references sandbox (id),
    actor   integer not null references actor (id),
    primary key (sandbox, actor)
) strict, without rowid;
with recursive work (sandbox, actor, seq) as (
    select x.sandbox, e.actor, x.seq from execution x join event e on e.seq = x.seq join sandbox s on s.id = x.sandbox
    where s.kind = 'kept' and x.seq > s.name_seq
    union select id, actor, name_seq from sandbox where kind = 'kept' and name_seq > seq
    union select json_extract(body, '$.sandbox'), actor, seq from event where kind = 'sandbox.written'
),
line (sandbox, origin, until) as (
    select id, id, 9223372036854775807 from sandbox
    union all select l.sandbox, s.forked_from, min(l.until, s.seq) from line l join sandbox s on s.id = l.origin
    where s.forked_from is not null
)
insert into sandbox_worker
select distinct l.sandbox, w.actor from line l join work w on w.sandbox = l.origin and w.seq < l.until
where w.actor is not null;

-- Who made a revision, and for whom: whoever worked in the sandbox that it came from, else whoever handed it in. One that
-- only puts the same patch onto other ground was made by nobody. Older releases knew only who handed it in.
create table maker (
    change   integer not null references change (id),
    revision integer not null,
    actor    integer not null references actor (id),
    sponsor  integer references actor (id),
    seq      integer not null,
    primary key (change, revision, actor)
) strict, without rowid;
insert into maker
select r.change, r.number, e.actor, json_extract(e.body, '$.sponsor'), r.seq
from revision r join event e on e.seq = r.seq
where e.actor is not null and (r.number = 1 or r.patch <>
    (select b.patch from revision b where b.change = r.change and b.number = r.number - 1));
