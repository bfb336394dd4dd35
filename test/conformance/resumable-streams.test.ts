// Resumable streams over PostgreSQL and over the store in memory that other tests use.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { createIdempotencyStore } from "../../control-plane/store/accounts/idempotency-store.ts";
import { createStreamStore } from "../../control-plane/store/accounts/stream-store.ts";
import { createResumableStreams } from "../../control-plane/streams/resumable-streams.ts";
import type { StreamStore } from "../../control-plane/streams/store.ts";
import type { StreamReader } from "../../control-plane/streams/stream-reader.ts";
import type { StreamLimits, StreamRun } from "../../control-plane/streams/stream-run.ts";
import { type AccountId, type RequestId, randomId } from "../../proto/ids.ts";
import { memoryStreams } from "../fakes/memory-streams.ts";
import { startPostgres, type TestPostgres } from "../fakes/postgres.ts";
import { openWorld } from "../integration/billing/world.ts";

const log = pino({ level: "silent" });
const dataKeys = { of: async () => Buffer.alloc(32, 7) };
const patient = { timeout: 10_000, interval: 20 };

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const stores = [
  { name: "memory", open: async () => ({ store: memoryStreams(), account: "u:1" as AccountId }) },
  {
    name: "PostgreSQL",
    open: async () => {
      const world = await openWorld(postgres);
      return { store: createStreamStore(world.db), account: await world.account(0n) };
    },
  },
];

/** All events of the stream, its pieces joined. Throws as `read`. */
async function readAll(reader: StreamReader, from = 0): Promise<string> {
  onTestFinished(() => reader.close());
  let text = "";
  for (let at = from; ; ) {
    const part = await reader.read(at, 5_000);
    if (part.kind !== "events") return `${text}|${part.kind}`;
    at += part.pieces.length;
    text += part.pieces.join("");
  }
}

describe.each(stores)("a stream in $name", ({ open }) => {
  async function start(limits: Partial<StreamLimits> = {}) {
    const { store, account } = await open();
    const bodyHash = Buffer.alloc(32, 3);
    const request = { account, route: "POST /v1/chat/completions", key: randomId(12), bodyHash };
    /** One control plane. */
    const at = (own: Partial<StreamStore> = {}) => {
      const streams = createResumableStreams({ store: { ...store, ...own }, dataKeys, log, limits });
      return {
        begin: (change: object = {}, isContinued = false) =>
          streams.begin({ ...request, ...change }, randomId(24) as RequestId, isContinued),
        stop: streams.stop,
      };
    };
    return { at, store, request };
  }
  const append = (writer: StreamRun, ...pieces: string[]) => {
    for (const piece of pieces) writer.append(Buffer.from(piece));
  };
  type Begun = Awaited<ReturnType<ReturnType<typeof createResumableStreams>["begin"]>>;
  const writerOf = ({ run }: Begun): StreamRun => {
    if (!run) throw new Error("another run writes it");
    return run.writer;
  };

  it("reaches a client here and one at another control plane, from any piece on, also after its end", async () => {
    const { at } = await start();
    const [one, other] = [at(), at()];
    const begun = await one.begin();
    const writer = writerOf(begun);
    append(writer, "a", "b");
    await writer.stored();
    const second = await other.begin();
    expect([second.run, second.stream]).toEqual([undefined, begun.stream]);
    const reading = [readAll(begun.reader), readAll(second.reader, 1)];
    append(writer, "c");
    await writer.end();
    expect(await Promise.all(reading)).toEqual(["abc|ended", "bc|ended"]);
    expect(await readAll((await other.begin()).reader)).toBe("abc|ended");
  });

  it("is continued by another run when the first stops to renew, which then writes no more", async () => {
    const { at } = await start({ lockMs: 300 });
    const frozen = await at({ renew: async () => {} }).begin();
    const old = writerOf(frozen);
    append(old, "a");
    await old.stored();
    const other = at();
    const next = await vi.waitFor(async () => {
      const begun = await other.begin();
      if (!begun.run) begun.reader.close();
      return { ...begun, run: begun.run as NonNullable<Begun["run"]>, isOwn: writerOf(begun).number };
    }, patient);
    expect([next.isOwn, next.run.sent.join("")]).toEqual([2, "a"]);
    const stopped = vi.fn();
    old.onStop = stopped;
    append(old, "late");
    await vi.waitFor(() => expect(stopped).toHaveBeenCalled(), patient);
    append(next.run.writer, "b");
    await next.run.writer.end();
    // Clients of the first run go on with the second.
    expect(await readAll(frozen.reader)).toBe("ab|ended");
  });

  it("that is released is continued at once, under the same id; one that is abandoned starts again", async () => {
    const { at } = await start();
    const [one, other] = [at(), at()];
    const first = await one.begin();
    append(writerOf(first), "a");
    const failure = new Error("no host");
    const reading = readAll(first.reader);
    await Promise.all([writerOf(first).release(failure), expect(reading).rejects.toBe(failure)]);
    const second = await other.begin();
    expect([second.stream, second.run?.sent.join("")]).toEqual([first.stream, "a"]);
    await writerOf(second).abandon(failure);
    const third = await one.begin();
    expect(writerOf(third).number).toBe(1);
    expect(third.stream.id).not.toBe(first.stream.id);
  });

  it("ends when no client was connected for a while, but not while one reads at another control plane", async () => {
    const { at } = await start({ awayMs: 300 });
    const looks: boolean[] = [];
    const { store } = await open();
    const noted = vi.fn(async (_id: RequestId, _ms: number) => looks.shift() ?? false);
    // A client at another control plane is seen twice, and then no more.
    looks.push(true, true);
    const one = at({ wasReadWithin: noted });
    const begun = await one.begin();
    append(writerOf(begun), "a");
    await writerOf(begun).stored();
    begun.reader.close();
    await vi.waitFor(() => expect(writerOf(begun).ending).toEqual({ kind: "ended" }), patient);
    expect(noted).toHaveBeenCalledTimes(3);
    const again = await at().begin();
    await expect(readAll(again.reader)).rejects.toMatchObject({ code: "stream_left" });
    // What it asks.
    expect(await store.wasReadWithin(begun.stream.id, 60_000)).toBe(false);
  });

  it("notes that a client reads it from another control plane", async () => {
    const { at, store } = await start();
    const begun = await at().begin();
    onTestFinished(() => begun.reader.close());
    expect(await store.wasReadWithin(begun.stream.id, 60_000)).toBe(false);
    const remote = await at().begin();
    await remote.reader.read(0, 1);
    remote.reader.close();
    expect(await store.wasReadWithin(begun.stream.id, 60_000)).toBe(true);
  });

  it("has no gap after an outage of the database that its run did not survive", async () => {
    const { at, store } = await start({ lockMs: 300 });
    let isAway = false;
    const away = async () => {
      throw new DatabaseUnavailable("unreachable");
    };
    const begun = await at({
      append: (pieces) => (isAway ? away() : store.append(pieces)),
      renew: async () => {},
    }).begin();
    const writer = writerOf(begun);
    append(writer, "a");
    await writer.stored();
    isAway = true;
    append(writer, "b");
    // The first is given up while the second waits for its group.
    await vi.waitFor(() => expect(writer.waitingBytes).toBe(1), patient);
    append(writer, "c");
    await vi.waitFor(() => expect(writer.ending).toEqual({ kind: "taken" }), patient);
    isAway = false;
    const next = await vi.waitFor(async () => {
      const other = await at().begin();
      if (!other.run) other.reader.close();
      return { ...other, writer: writerOf(other) };
    }, patient);
    expect(next.run?.sent.join("")).toBe("a");
    append(next.writer, "bc");
    await next.writer.end();
    expect(await readAll(begun.reader)).toBe("abc|ended");
  });

  it("loses only its own run where one of its pieces cannot be stored; a piece that was stored is written again", async () => {
    const { at, store } = await start();
    let isLost = false;
    const one = at({
      async append(pieces) {
        if (pieces.some(({ sealed }) => sealed.length > 1_000)) throw new Error("refused");
        const lost = await store.append(pieces);
        if (isLost) return lost;
        // Committed, and the connection broke before the reply.
        isLost = true;
        throw new DatabaseUnavailable("no_answer");
      },
    });
    const [good, bad] = [await one.begin(), await one.begin({ key: randomId(12) })];
    append(writerOf(good), "a");
    append(writerOf(bad), "b", "x".repeat(2_000), "c");
    append(writerOf(good), "d");
    await writerOf(good).end();
    expect(await readAll(good.reader)).toBe("ad|ended");
    expect(writerOf(bad).ending).toEqual({ kind: "taken" });
    bad.reader.close();
    expect(await store.read(bad.stream.id, 0)).toMatchObject({ pieces: [expect.anything()] });
  });

  it("is kept while it runs; who reads or continues it after its time is told", async () => {
    const { at } = await start({ keepMs: 0 });
    const running = await at().begin();
    const remote = await at().begin();
    onTestFinished(() => {
      running.reader.close();
      remote.reader.close();
    });
    expect(remote.stream).toEqual(running.stream);
    append(writerOf(running), "a");
    await writerOf(running).end();
    await expect(at().begin({}, true)).rejects.toMatchObject({ code: "stream_gone" });
    await expect(remote.reader.read(0, 1)).rejects.toMatchObject({ code: "stream_gone" });
    expect(writerOf(await at().begin()).number).toBe(1);
  });

  it("fails for good above its size, with what was sent", async () => {
    const { at } = await start({ maxBytes: 4 });
    const begun = await at().begin();
    append(writerOf(begun), "abc", "de", "f");
    await vi.waitFor(() => expect(writerOf(begun).ending).toEqual({ kind: "ended" }), patient);
    expect(await begun.reader.read(0, 5_000)).toMatchObject({ pieces: [Buffer.from("abc")] });
    await expect(readAll(begun.reader, 1)).rejects.toMatchObject({ code: "stream_too_long" });
  });

  it("is given up after ten runs", async () => {
    const { at } = await start();
    for (let run = 1; run <= 10; run++) {
      const begun = await at().begin();
      append(writerOf(begun), String(run));
      await writerOf(begun).release(new Error("broken"));
      begun.reader.close();
      if (run === 10) break;
      // One that did not begin does not count.
      const idle = await at().begin();
      await writerOf(idle).withdraw(new Error("no memory"));
      idle.reader.close();
    }
    const last = await at().begin();
    expect(last.run).toBeUndefined();
    await expect(readAll(last.reader, 10)).rejects.toMatchObject({ code: "stream_broken" });
  });

  it("ends where its run died between the last piece and the end of the claim", async () => {
    const { at } = await start({ lockMs: 200 });
    const begun = await at({ renew: async () => {}, end: async () => {} }).begin();
    append(writerOf(begun), "a");
    await writerOf(begun).end();
    begun.reader.close();
    await vi.waitFor(async () => {
      const next = await at().begin();
      expect(next.run).toBeUndefined();
      expect(await readAll(next.reader)).toBe("a|ended");
    }, patient);
  });

  it("is refused for another request under its key", async () => {
    const { at } = await start();
    const begun = await at().begin();
    onTestFinished(() => begun.reader.close());
    await expect(at().begin({ bodyHash: Buffer.alloc(32, 4) })).rejects.toMatchObject({
      code: "idempotency_key_reused",
    });
  });

  it("goes on elsewhere at once when its control plane stops", async () => {
    const { at } = await start();
    const one = at();
    const begun = await one.begin();
    append(writerOf(begun), "a");
    begun.reader.close();
    await one.stop();
    expect((await at().begin()).run?.sent.join("")).toBe("a");
  });
});

it("shares its keys with requests that are not resumable", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(0n);
  const streams = createResumableStreams({ store: createStreamStore(world.db), dataKeys, log });
  const keys = createIdempotencyStore(world.db);
  const request = { account, route: "POST /v1/chat/completions", bodyHash: Buffer.alloc(32, 3) };
  const plain = { ...request, claim: "c", lockMs: 60_000, keepMs: 60_000, mayTakeOver: true };
  await keys.claim({ ...plain, key: "plain" });
  await expect(streams.begin({ ...request, key: "plain" }, randomId(24) as RequestId, false)).rejects.toMatchObject({
    code: "idempotency_key_in_use",
  });
  const begun = await streams.begin({ ...request, key: "stream" }, randomId(24) as RequestId, false);
  onTestFinished(() => begun.reader.close());
  expect(await keys.claim({ ...plain, key: "stream" })).toMatchObject({ kind: "running" });
  await begun.run?.writer.end();
  expect(await keys.claim({ ...plain, key: "stream" })).toMatchObject({ kind: "answered" });
});
