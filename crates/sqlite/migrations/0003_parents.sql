-- The run that is told of each end of this one, and the topic of what it is told.
ALTER TABLE run ADD COLUMN parent BLOB;
ALTER TABLE run ADD COLUMN parent_topic TEXT;
