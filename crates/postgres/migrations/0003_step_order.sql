-- A connection that keeps numbers for itself hands out smaller ones than another has used since: the steps of a run that
-- came by two connections would be read in an order in which nobody recorded them.
ALTER TABLE {s}.step ALTER COLUMN seq SET CACHE 1;
