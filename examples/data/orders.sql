-- A shop that knows nothing of Rust. It takes orders, and what is to be done about them, in one transaction.

CREATE TABLE orders (id integer PRIMARY KEY, total integer NOT NULL);

BEGIN;
INSERT INTO orders (id, total) VALUES (17, 420);
SELECT windlass.start('order', '{"id": 17, "total": 420}', key => 'order-17');
COMMIT;

-- The customer changed their mind. Neither the order nor its run was ever there.
BEGIN;
INSERT INTO orders (id, total) VALUES (18, 99);
SELECT windlass.start('order', '{"id": 18, "total": 99}', key => 'order-18');
ROLLBACK;

-- Asked again, because the answer got lost: the same key gives the same run. The input may be made from the row.
SELECT windlass.start('order', to_json(o), key => 'order-' || o.id) FROM orders AS o;
