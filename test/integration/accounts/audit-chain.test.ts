// The audit log's chain on a real PostgreSQL: sealed after commit, exported, verified, and delivered to a webhook and a bucket.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createAuditChain } from "../../../control-plane/accounts/audit-chain.ts";
import { createS3Blobs } from "../../../control-plane/blobs/s3-blobs.ts";
import { createAuditChainStore } from "../../../control-plane/store/accounts/audit-chain-store.ts";
import { auditSystem } from "../../../control-plane/store/accounts/audit-rows.ts";
import { createAudit } from "../../../control-plane/wiring/audit.ts";
import { AuditCheck } from "../../../proto/audit-chain.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { programs } from "../../fakes/programs.ts";
import { startS3Server } from "../../fakes/s3-server.ts";
import { log, openWorld } from "../billing/world.ts";

const s3 = await startS3Server();
if (!s3)
  console.warn(
    "NOT PROVEN here, because moto[server] is missing (scripts/test installs it): the audit log arrives in a bucket.",
  );

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(async () => {
  await postgres.stop();
  await s3?.stop();
});

async function open() {
  const world = await openWorld(postgres);
  const store = createAuditChainStore(world.db);
  const chain = createAuditChain({ store });
  const write = (note: string) =>
    world.db
      .transaction()
      .execute((trx) => auditSystem(trx, { action: "test.act", subject: "s", account: null, after: { a: 1.5 }, note }));
  const read = async (range: Partial<Parameters<typeof chain.export>[0]> = {}) => {
    let text = "";
    for await (const piece of await chain.export({ limit: 100_000, ...range })) text += piece;
    return text;
  };
  return { ...world, store, chain, write, read };
}

function verdictOf(text: string) {
  const check = new AuditCheck();
  for (const line of text.split("\n")) check.push(line);
  return check.end();
}

const notesIn = (text: string) =>
  [...text.matchAll(/"note":("(?:[^"\\]|\\.)*")/g)].map(([, note = ""]) => JSON.parse(note) as string);

describe("the chain of the audit log", () => {
  it("exports every row once, in pages and ranges that continue each other", async () => {
    const { write, read, chain } = await open();
    await chain.seal();
    const before = verdictOf(await read()).rows;
    for (const note of ["one", 'two "quoted" \u2028 line', "three"]) await write(note);
    const whole = await read();
    expect(verdictOf(whole)).toMatchObject({ rows: before + 3, first: 1n, problems: [] });
    expect(notesIn(whole).slice(before)).toEqual(["one", 'two "quoted" \u2028 line', "three"]);
    expect(await chain.seal()).toBe(0);
    expect(await read()).toBe(whole);
    const first = await read({ limit: before + 1 });
    expect(first).toContain('"more":true');
    const second = await read({ after: BigInt(before + 1) });
    expect(second).toContain('"more":false');
    expect(verdictOf(first + second)).toMatchObject({ rows: before + 3, problems: [] });
    expect(verdictOf(await read({ untilMs: 0 }))).toMatchObject({ rows: 0, problems: [] });
    expect(verdictOf(await read({ sinceMs: Date.now() + 60_000 }))).toMatchObject({ rows: 0, problems: [] });
  });

  it("seals a bounded number of rows in a request, says that more follow, and stops with the request", async () => {
    const { pool, chain, read } = await open();
    await chain.seal();
    const before = verdictOf(await read()).rows;
    await pool.query(
      `insert into audit (actor, action, subject, ip, before, after, note)
       select 'system', 'test.act', 's', '', 'null', 'null', n::text from generate_series(1, 3000) n`,
    );
    const ended = AbortSignal.abort();
    await expect(chain.export({ limit: 100_000 }, ended)).rejects.toThrow();
    const first = await read();
    expect(first).toContain('"more":true');
    const sealed = verdictOf(first).rows;
    expect(sealed).toBeGreaterThan(before);
    expect(sealed).toBeLessThan(before + 3000);
    const second = await read({ after: BigInt(sealed) });
    expect(second).toContain('"more":false');
    expect(verdictOf(first + second)).toMatchObject({ rows: before + 3000, problems: [] });
  });

  it("seals a row whose transaction ends after a later one was sealed", async () => {
    const { db, write, read } = await open();
    const gate = Promise.withResolvers<void>();
    const inserted = Promise.withResolvers<void>();
    const late = db.transaction().execute(async (trx) => {
      await auditSystem(trx, { action: "test.act", subject: "s", account: null, note: "late" });
      inserted.resolve();
      await gate.promise;
    });
    await inserted.promise;
    await write("early");
    expect(notesIn(await read()).at(-1)).toBe("early");
    gate.resolve();
    await late;
    const text = await read();
    expect(notesIn(text).slice(-2)).toEqual(["early", "late"]);
    expect(verdictOf(text).problems).toEqual([]);
  });

  it("stays one chain while several processes seal", async () => {
    const { db, write, read } = await open();
    const others = [
      createAuditChain({ store: createAuditChainStore(db) }),
      createAuditChain({ store: createAuditChainStore(db) }),
    ];
    await Promise.all(
      Array.from({ length: 30 }, async (_, n) => {
        await write(`act ${n}`);
        await Promise.all(others.map((one) => one.seal()));
      }),
    );
    const text = await read();
    expect(verdictOf(text).problems).toEqual([]);
    expect(new Set(notesIn(text).filter((note) => note.startsWith("act "))).size).toBe(30);
  });

  it("shows a row that was altered in the database, and one that was deleted", async () => {
    const { db, pool, write, read } = await open();
    for (const note of ["one", "two", "three", "four"]) await write(note);
    const rows = verdictOf(await read()).rows;
    await expect(pool.query("update audit set note = 'forged' where note = 'two'")).rejects.toThrow();
    await expect(pool.query("delete from audit_link")).rejects.toThrow();
    const client = await pool.connect();
    onTestFinished(() => client.release());
    // An owner of the database can switch the triggers off.
    await client.query("set session_replication_role = replica");
    await client.query("update audit set note = 'forged' where note = 'two'");
    expect(verdictOf(await read()).problems).toEqual([
      expect.stringMatching(new RegExp(`^Row ${rows - 2} \\(entry \\d+, test\\.act\\)`)),
    ]);
    await client.query("update audit set note = 'two' where note = 'forged'");
    expect(verdictOf(await read()).problems).toEqual([]);
    await client.query("delete from audit where note = 'three'");
    expect(verdictOf(await read()).problems).toEqual([`Row ${rows - 1} is missing.`]);
    await client.query("set session_replication_role = origin");
    expect(db).toBeDefined();
  });

  it("is verified by the command line without a server, which names the altered row", async () => {
    const { write, read } = await open();
    await write("word");
    const folder = mkdtempSync(join(tmpdir(), "stoker-audit-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const verify = (text: string) => {
      writeFileSync(join(folder, "audit.jsonl"), text);
      const args = [programs.cli, "audit", "verify", join(folder, "audit.jsonl")];
      const env = { PATH: process.env["PATH"], HOME: folder };
      return spawnSync(process.execPath, args, { encoding: "utf8", env });
    };
    const text = await read();
    const whole = verify(text);
    expect([whole.status, whole.stdout]).toEqual([0, expect.stringContaining("are whole")]);
    const forged = verify(text.replace('"word"', '"sword"'));
    expect(forged.status).not.toBe(0);
    expect(forged.stdout).toContain(`Row ${verdictOf(text).rows} (entry `);
  });
});

describe("receivers of the audit log", () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  const { signal } = new AbortController();

  it("get every row at a webhook, signed, and again from the first that did not arrive", async () => {
    const { db, write, read } = await open();
    const got: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
    let status = 503;
    const server = createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (piece) => {
        body += piece;
      });
      request.on("end", () => {
        got.push({ headers: request.headers, body });
        response.writeHead(status).end();
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/audit`;
    const audit = await createAudit({ db, settings: { webhook: { url, secret }, s3: undefined }, log });
    const deliver = audit.deliver ?? expect.unreachable("there is a receiver");
    await write("one");
    await audit.seal();
    await expect(deliver(signal)).rejects.toThrow("503");
    status = 204;
    await write("two");
    await audit.seal();
    await deliver(signal);
    await write("three");
    await audit.seal();
    await deliver(signal);
    await deliver(signal);

    expect(got).toHaveLength(3);
    for (const { headers, body } of got) expect(isSigned(secret, body, headers)).toBe(true);
    expect(isSigned(secret, `${got[2]?.body} `, got[2]?.headers ?? {})).toBe(false);
    const arrived = got.slice(1).map(({ body }) => body);
    expect(verdictOf(arrived.join(""))).toEqual(verdictOf(await read()));
  });

  it("get bodies of at most 1 MiB, under a name without the address's token, and no longer than the job runs", async () => {
    const { db, write, read } = await open();
    const got: string[] = [];
    let isSilent = false;
    const arrived = Promise.withResolvers<void>();
    const server = createServer((request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (piece) => {
        body += piece;
      });
      request.on("end", () => {
        if (isSilent) return arrived.resolve();
        got.push(body);
        response.writeHead(204).end();
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/audit/tok-secret?key=sesame`;
    const audit = await createAudit({ db, settings: { webhook: { url, secret }, s3: undefined }, log });
    const deliver = audit.deliver ?? expect.unreachable("there is a receiver");
    const large = "x".repeat(300_000);
    for (let n = 0; n < 5; n++) await write(large);
    await write("y".repeat(2 * 1024 * 1024));
    await audit.seal();
    await deliver(signal);
    expect(verdictOf(got.join(""))).toEqual(verdictOf(await read()));
    for (const body of got) expect(body.length < 1_050_000 || verdictOf(body).rows === 1 || body.length).toBe(true);
    const names = (await db.selectFrom("auditDelivery").select("receiver").execute()).map(({ receiver }) => receiver);
    expect(names.join()).toContain(new URL(url).origin);
    expect(names.join()).not.toMatch(/tok-secret|sesame/);

    isSilent = true;
    await write("last");
    await audit.seal();
    const stop = new AbortController();
    const running = deliver(stop.signal);
    await arrived.promise;
    stop.abort();
    await expect(running).rejects.toThrow("the sender stopped");
  });

  it.runIf(s3)("get every row in a bucket, one object for each delivery", async () => {
    const { db, write, read } = await open();
    const server = s3 ?? expect.unreachable();
    await server.makeBucket("audit");
    const bucket = {
      bucket: "audit",
      prefix: "log/",
      region: "us-east-1",
      endpoint: server.endpoint,
      credentials: { accessKeyId: "id", secretAccessKey: "secret" },
    };
    const audit = await createAudit({ db, settings: { webhook: undefined, s3: bucket }, log });
    const deliver = audit.deliver ?? expect.unreachable("there is a receiver");
    const blobs = createS3Blobs(bucket);
    const parts: string[] = [];
    for (const note of ["one", "two"]) {
      const from = verdictOf(await read()).rows;
      await write(note);
      await audit.seal();
      await deliver(signal);
      // The first delivery has all that was there.
      const first = parts.length === 0 ? 1 : from + 1;
      parts.push(await textOf(await blobs.get(`${String(first).padStart(12, "0")}.jsonl`)));
    }
    expect(verdictOf(parts.join(""))).toEqual(verdictOf(await read()));
  });
});

function isSigned(secret: string, body: string, headers: IncomingHttpHeaders): boolean {
  const sent = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  try {
    // Parses the body as JSON after it has checked the signature.
    new Webhook(secret).verify(body, sent);
    return true;
  } catch (error) {
    return error instanceof SyntaxError;
  }
}
