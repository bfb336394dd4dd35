// Temporary databases on the installation's server: a backup is loaded and checked in one, which then replaces the old database
// by a rename. A restore that is killed before the rename leaves the old database unchanged.
import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { Logger } from "pino";
import { randomId } from "../../../proto/ids.ts";
import { openDatabase } from "./database.ts";
import { codeOf } from "./outage.ts";
import type { Db } from "./schema.ts";

/** The message is for the operator. */
export class SwapRefused extends Error {
  override readonly name = "SwapRefused";
}

export interface DatabaseServer {
  readonly major: number;
  /** Throws SwapRefused if the role may not replace the database, or another restore is running. */
  demandRestore(): Promise<void>;
  /** Runs `work` with a new empty database; drops it afterwards unless it has replaced the installation's. */
  withNewDatabase<T>(work: (fresh: NewDatabase) => Promise<T>): Promise<T>;
}

export interface NewDatabase {
  readonly url: string;
  /**
   * Gives it the name, settings and grants of the installation's database, which is renamed. Closes connections to both.
   * Returns the statements for settings that the role may not set.
   */
  takePlace(): Promise<readonly string[]>;
  /** Call after takePlace: drops the replaced databases. */
  dropReplaced(): Promise<void>;
}

interface Target {
  readonly name: string;
  readonly maintenance: string | null;
  readonly role: string;
  readonly mayCreate: boolean;
  readonly isOwner: boolean;
  readonly owner: string;
  readonly major: number;
}

const swapAttempts = 5;
const objectInUse = "55006";
const insufficientPrivilege = "42501";

/** Throws SwapRefused if the server has no second database to connect to. */
export async function withDatabaseServer<T>(
  databaseUrl: string,
  log: Logger,
  work: (server: DatabaseServer) => Promise<T>,
): Promise<T> {
  const target = await inspect(databaseUrl, log);
  const { name, maintenance, role } = target;
  if (maintenance === null)
    throw new SwapRefused(`Role ${role} may connect to neither postgres nor template1. Grant it CONNECT on postgres.`);
  const server = openDatabase(urlOf(databaseUrl, maintenance), { maxConnections: 1, statementTimeoutMs: 0, log });
  // Identifies this installation on a server that may have several.
  const mark = createHash("sha256").update(name).digest("hex").slice(0, 8);
  const [loading, replaced] = [`stoker_restoring_${mark}_`, `stoker_replaced_${mark}_`];
  const drop = (session: Db, database: string) =>
    sql`drop database if exists ${sql.id(database)} with (force)`.execute(session);

  try {
    // One session throughout, because its locks mark a temporary database as in use. Without plugins, because CamelCasePlugin
    // would change the operator's database names.
    return await server.db
      .withoutPlugins()
      .connection()
      .execute(async (session) => {
        await sql`select set_config(name, '0', false) from pg_settings where name = 'idle_session_timeout'`.execute(
          session,
        );
        return work({
          major: target.major,
          async demandRestore() {
            demandRights(target);
            if (!(await tryLock(session, `restore ${name}`)))
              throw new SwapRefused(`Another restore of ${name} is running. Wait until it has ended.`);
          },
          async withNewDatabase(use) {
            if (!target.mayCreate) throw new SwapRefused(lacksCreateDb(role));
            await dropAbandoned(session, loading, drop);
            const fresh = `${loading}${suffix()}`;
            await tryLock(session, fresh);
            await sql.raw(await creationOf(session, target, fresh)).execute(session);
            const url = urlOf(databaseUrl, fresh);
            const takePlace = async () => {
              const refused = await copySettings(session, name, fresh);
              await swap(session, name, fresh, `${replaced}${suffix()}`);
              return refused;
            };
            const dropReplaced = async () => {
              for (const database of await databasesOf(session, replaced)) await drop(session, database);
            };
            let result: Awaited<ReturnType<typeof use>>;
            try {
              result = await use({ url, takePlace, dropReplaced });
            } catch (error) {
              // If the server is unreachable, the next restore drops it.
              await drop(session, fresh).catch(() => {});
              throw error;
            }
            await drop(session, fresh);
            return result;
          },
        });
      });
  } finally {
    await server.close();
  }
}

async function inspect(databaseUrl: string, log: Logger): Promise<Target> {
  const { db, close } = openDatabase(databaseUrl, { maxConnections: 1, statementTimeoutMs: 0, log });
  try {
    const { rows } = await sql<Target>`
      select d.datname as name, r.rolname as role, r.rolsuper or r.rolcreatedb as "mayCreate",
        pg_has_role(d.datdba, 'usage') as "isOwner", pg_get_userbyid(d.datdba) as owner,
        current_setting('server_version_num')::int / 10000 as major,
        (select datname from pg_database where datname in ('postgres', 'template1') and datname <> d.datname and datallowconn
          and has_database_privilege(oid, 'connect') order by datname limit 1) as maintenance
      from pg_database d, pg_roles r where d.datname = current_database() and r.rolname = current_user`.execute(db);
    const [target] = rows;
    if (!target) throw new Error("PostgreSQL did not describe the database");
    return target;
  } finally {
    await close();
  }
}

const lacksCreateDb = (role: string) =>
  `Role ${role} needs the right to create databases: alter role ${quoted(role)} createdb. Then try again.`;

function demandRights({ name, role, owner, mayCreate, isOwner }: Target): void {
  if (!mayCreate) throw new SwapRefused(lacksCreateDb(role));
  if (!isOwner)
    throw new SwapRefused(
      `Role ${role} must own the database ${name}, which belongs to ${owner}: ` +
        `alter database ${quoted(name)} owner to ${quoted(role)}. Then try again.`,
    );
}

const quoted = (name: string) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

const suffix = () =>
  randomId<"database">(12)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "x");

function urlOf(databaseUrl: string, name: string): string {
  const url = new URL(databaseUrl);
  url.pathname = `/${encodeURIComponent(name)}`;
  return url.href;
}

/** Returns false if another session holds the lock. */
async function tryLock(session: Db, name: string): Promise<boolean> {
  const { rows } = await sql<{ isLocked: boolean }>`
    select pg_try_advisory_lock(hashtextextended(${`stoker ${name}`}, 0)) as "isLocked"`.execute(session);
  return rows[0]?.isLocked ?? false;
}

async function databasesOf(session: Db, prefix: string): Promise<readonly string[]> {
  const { rows } = await sql<{ name: string }>`
    select datname as name from pg_database where starts_with(datname, ${prefix}) order by 1`.execute(session);
  return rows.map(({ name }) => name);
}

/** Drops databases of processes that ended without doing so: a database in use is locked. */
async function dropAbandoned(
  session: Db,
  prefix: string,
  drop: (session: Db, database: string) => Promise<unknown>,
): Promise<void> {
  for (const database of await databasesOf(session, prefix))
    if (await tryLock(session, database)) await drop(session, database);
}

/** Returns the statement that creates a database with the target's encoding, locale, tablespace, owner and connection limit. */
async function creationOf(session: Db, target: Target, fresh: string): Promise<string> {
  const { rows } = await sql<{ text: string }>`
    select format('create database %I template template0 encoding %L lc_collate %L lc_ctype %L connection limit %s',
        ${fresh}::text, pg_encoding_to_char(d.encoding), d.datcollate, d.datctype, d.datconnlimit)
      || case to_jsonb(d) ->> 'datlocprovider'
        when 'c' then ' locale_provider libc'
        when 'i' then format(' locale_provider icu icu_locale %L',
          coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale'))
        when 'b' then format(' locale_provider builtin builtin_locale %L', to_jsonb(d) ->> 'datlocale')
        else '' end
      || case when d.dattablespace = t.dattablespace then ''
        else format(' tablespace %I', (select spcname from pg_tablespace where oid = d.dattablespace)) end
      || case when d.datdba = (select oid from pg_roles where rolname = current_user) then ''
        when pg_has_role(d.datdba, 'member') then format(' owner %I', pg_get_userbyid(d.datdba)) else '' end as text
    from pg_database d, pg_database t where d.datname = ${target.name} and t.datname = 'template0'`.execute(session);
  const [creation] = rows;
  if (!creation) throw new SwapRefused(`The database ${target.name} was renamed or dropped in the meantime.`);
  return creation.text;
}

/** Parts of a statement before and after the database's name. */
type Setting = readonly [before: string, after: string];

/** Returns statements that reproduce the settings and grants of a database. */
async function settingsOf(session: Db, database: string): Promise<readonly Setting[]> {
  const { rows } = await sql<{ before: string; after: string }>`
    select 1 as step, case s.setrole when 0 then 'alter database '
        else format('alter role %I in database ', pg_get_userbyid(s.setrole)) end as before,
      format(' set %I to %s', split_part(c, '=', 1),
        -- Lists are stored quoted.
        case when split_part(c, '=', 1) in ('search_path', 'temp_tablespaces', 'local_preload_libraries',
            'session_preload_libraries') then substr(c, strpos(c, '=') + 1)
          else quote_literal(substr(c, strpos(c, '=') + 1)) end) as after
      from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase, unnest(s.setconfig) as c
      where d.datname = ${database}
    union all
    select 2, 'revoke all on database ', ' from public' from pg_database where datname = ${database} and datacl is not null
    union all
    select 3, format('grant %s on database ', a.privilege_type),
        format(' to %s%s', case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
          case when a.is_grantable and a.grantee <> d.datdba then ' with grant option' else '' end)
      from pg_database d, aclexplode(d.datacl) as a where d.datname = ${database}
    order by step`.execute(session);
  return rows.map(({ before, after }) => [before, after]);
}

/** Copies settings; returns the statements that the role may not execute. */
async function copySettings(session: Db, from: string, to: string): Promise<readonly string[]> {
  const refused: string[] = [];
  for (const [before, after] of await settingsOf(session, from)) {
    try {
      await sql`${sql.raw(before)}${sql.id(to)}${sql.raw(after)}`.execute(session);
    } catch (error) {
      if (codeOf(error) !== insufficientPrivilege) throw error;
      refused.push(`${before}${quoted(from)}${after};`);
    }
  }
  return refused;
}

async function swap(session: Db, target: string, fresh: string, replaced: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname in (${target}, ${fresh}) and backend_type = 'client backend'`.execute(session);
      // Both names change in one transaction. PostgreSQL waits up to 5 s for connections to end.
      await session.transaction().execute(async (trx) => {
        await sql`set local lock_timeout = '60s'`.execute(trx);
        await sql`alter database ${sql.id(target)} rename to ${sql.id(replaced)}`.execute(trx);
        await sql`alter database ${sql.id(fresh)} rename to ${sql.id(target)}`.execute(trx);
      });
      return;
    } catch (error) {
      const code = codeOf(error);
      if (code === objectInUse && attempt < swapAttempts) continue;
      if (code !== objectInUse && code !== insufficientPrivilege) throw error;
      throw new SwapRefused(
        `Other sessions use the database ${target} and could not be ended (${(error as Error).message}). ` +
          "End them and try again.",
        { cause: error },
      );
    }
  }
}
