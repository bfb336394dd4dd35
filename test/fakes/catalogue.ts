// What a database consists of, read from PostgreSQL's own catalogue: one line for each fact, sorted.
import pg from "pg";

/** `relation` in each query is a class of schema public. */
const relation = "c.relnamespace = 'public'::regnamespace";
const facts = [
  `select 'relation ' || c.relname, concat_ws(' ', c.relkind, c.relpersistence, c.reloptions::text, c.relrowsecurity,
     c.relreplident, pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid), parent.relname)
   from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class parent on parent.oid = i.inhparent
   where ${relation}`,
  `select 'column ' || c.relname || '.' || a.attname, concat_ws(' ',
     row_number() over (partition by c.oid order by a.attnum), format_type(a.atttypid, a.atttypmod), 'not null', a.attnotnull,
     'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity, 'generated', a.attgenerated,
     a.attstorage, a.attcompression, 'collation', a.attcollation)
   from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
   left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
   where ${relation} and c.relkind in ('r', 'p', 'c', 'v', 'm')`,
  `select 'constraint ' || c.relname || '.' || k.conname,
     concat_ws(' ', k.contype, pg_get_constraintdef(k.oid), k.condeferrable, k.condeferred, k.convalidated)
   from pg_class c join pg_constraint k on k.conrelid = c.oid where ${relation}`,
  `select 'index ' || i.relname, concat_ws(' ', pg_get_indexdef(x.indexrelid), x.indisvalid, x.indisunique, x.indisprimary)
   from pg_class c join pg_index x on x.indrelid = c.oid join pg_class i on i.oid = x.indexrelid where ${relation}`,
  `select 'sequence ' || c.relname, concat_ws(' ', format_type(s.seqtypid, null), s.seqstart, s.seqincrement, s.seqmin,
     s.seqmax, s.seqcache, s.seqcycle, d.refobjid::regclass, d.refobjsubid)
   from pg_class c join pg_sequence s on s.seqrelid = c.oid
   left join pg_depend d on d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
     and d.refclassid = 'pg_class'::regclass
   where ${relation}`,
  `select 'trigger ' || c.relname || '.' || t.tgname, pg_get_triggerdef(t.oid) || concat(' ', t.tgenabled)
   from pg_class c join pg_trigger t on t.tgrelid = c.oid where ${relation} and not t.tgisinternal`,
  `select 'function ' || p.proname || '(' || pg_get_function_arguments(p.oid) || ')', concat_ws(' ',
     pg_get_function_result(p.oid), l.lanname, p.prokind, p.provolatile, p.proisstrict, p.prosecdef, p.proleakproof,
     p.proparallel, p.proconfig::text) || E'\\n' || p.prosrc
   from pg_proc p join pg_language l on l.oid = p.prolang where p.pronamespace = 'public'::regnamespace`,
  "select 'extension ' || extname, extversion from pg_extension",
  `select 'type ' || typname, concat_ws(' ', typtype, format_type(typbasetype, typtypmod),
     (select string_agg(enumlabel, ',' order by enumsortorder) from pg_enum where enumtypid = t.oid))
   from pg_type t where typnamespace = 'public'::regnamespace and typelem = 0`,
  `select 'statistics ' || stxname, pg_get_statisticsobjdef(oid) from pg_statistic_ext`,
  `select 'policy ' || polname, polrelid::regclass::text from pg_policy`,
];

/**
 * Catalogue of schema public of the database at `url`. Functions are compared without the layout of their text: whitespace
 * outside comments does not count.
 */
export async function catalogueOf(url: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const lines: string[] = [];
    for (const query of facts) {
      const { rows } = await client.query<[string, string]>({ text: query, rowMode: "array" });
      for (const [name, value] of rows) lines.push(`${name}: ${name.startsWith("function") ? laidOut(value) : value}`);
    }
    return lines.sort();
  } finally {
    await client.end();
  }
}

/** Comment lines as they are, all else without whitespace. */
const laidOut = (body: string): string =>
  body
    .split("\n")
    .map((line) => line.trim())
    .map((line) => (line.startsWith("--") ? `\n${line}\n` : line.replaceAll(/\s+/g, "")))
    .join("");
