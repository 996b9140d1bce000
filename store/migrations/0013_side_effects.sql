-- What a command was let reach, and what it did besides its work: numbers here, names in the payload of the event that
-- finished it. Null: recorded before this was looked at.
alter table execution add column network text check (network = 'none' or network = 'by-name' or network = 'host');
alter table execution add column side_effects text;
alter table execution add column finished_seq integer;
