-- A project is known by `key`: number and time of birth of its directory, which a reboot, a remount and a move leave as
-- they are. Device, inode and path are hints. Null in what older releases wrote until the project is seen again, and where
-- the file system keeps no time of birth: known by inode and path then.
alter table project add column key text;
alter table project add column path_seq integer;  -- the event with the path where it was seen last; null: seq's
create index project_by_key on project (key);
