\set k random(1, 1000)
UPDATE kv SET v = :v WHERE k = :k;
