-- The run that is told of each end of this one, and the topic of what it is told.
ALTER TABLE {s}.run ADD COLUMN parent uuid, ADD COLUMN parent_topic text COLLATE "C";

-- As before, but for topics that begin with `>`: under these a run hears of its children.
CREATE OR REPLACE FUNCTION {s}.send(run uuid, topic text, payload text DEFAULT 'null', key text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF coalesce(topic, '') = '' THEN
        RAISE EXCEPTION 'an event needs the name of a topic' USING ERRCODE = 'WL003';
    ELSIF left(topic, 1) IN ('!', '>') THEN
        RAISE EXCEPTION 'the topic `%` is the engine''s own: choose one that does not begin with `!` or `>`', topic
            USING ERRCODE = 'WL003';
    END IF;
    RETURN {s}.post(send.run, send.topic, {s}.payload('payload', send.payload), send.key);
END $$;
