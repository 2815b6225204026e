DELETE FROM erased_records WHERE chain = ?chain AND erasure <= ?seq;
DELETE FROM erasures WHERE chain = ?chain AND seq <= ?seq;
DELETE FROM feedback WHERE chain = ?chain AND seq <= ?seq;
DELETE FROM reviews WHERE chain = ?chain AND seq <= ?seq;
