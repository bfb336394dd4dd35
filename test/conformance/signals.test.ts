// Messages between replicas: the same promises in one process and over a real Redis, and what Redis may do in between.
import { connect, createServer, type Socket } from "node:net";
import pino from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createSignalHub } from "../../control-plane/signals/create-signals.ts";
import type { Signals } from "../../control-plane/signals/port.ts";
import { createRedisSignals } from "../../control-plane/signals/redis.ts";
import { freePort } from "../fakes/free-port.ts";
import { hasRedis, startRedis, type TestRedis, withoutRedis } from "../fakes/redis.ts";

const log = pino({ level: "silent" });
const patience = { timeout: 30_000, interval: 10 };
let redis: TestRedis;
let serial = 0;
const made: Signals[] = [];
const keep = (signals: Signals) => {
  made.push(signals);
  return signals;
};

beforeAll(async () => {
  if (hasRedis) redis = await startRedis();
});
afterAll(() => redis?.stop());
afterEach(async () => {
  for (const signals of made.splice(0)) await signals.close();
});
withoutRedis("messages between replicas, their loss and their return when Redis is killed, flushed or absent");

const connected = async (...all: Signals[]) => {
  await vi.waitFor(() => expect(all.map((one) => one.isConnected)).toEqual(all.map(() => true)), patience);
};
/** What `signals` hears on both topics. */
const ear = (signals: Signals) => {
  const heard: string[] = [];
  signals.on("change", (message, from) => heard.push(`change ${from}: ${message}`));
  signals.on("rates", (message, from) => heard.push(`rates ${from}: ${message}`));
  return heard;
};
/** Nothing that was said before is still on its way once this has arrived. */
const settled = async (speaker: Signals, ears: readonly string[][], word = `end ${++serial}`) => {
  await vi.waitFor(() => {
    speaker.publish("change", word);
    for (const heard of ears) expect(heard.some((one) => one.endsWith(word))).toBe(true);
  }, patience);
};

const inProcess = () => {
  const hubs = new Map<string, ReturnType<typeof createSignalHub>>();
  return (id: string, installation = "one") => {
    const hub = hubs.get(installation) ?? createSignalHub();
    hubs.set(installation, hub);
    return keep(hub.join(id));
  };
};
const overRedis = () => {
  const test = ++serial;
  return (id: string, installation = "one") =>
    keep(createRedisSignals({ url: redis.url, id, installation: `${test}-${installation}`, log }));
};

describe.each([
  ["in process", inProcess, true],
  ["over Redis", overRedis, hasRedis],
] as const)("signals %s", (_name, make, canRun) => {
  const check = it.skipIf(!canRun);

  check("reach every other replica, and not the one that sent them", async () => {
    const join = make();
    const [a, b, c] = [join("a"), join("b"), join("c")];
    const [atA, atB, atC] = [ear(a), ear(b), ear(c)];
    await connected(a, b, c);
    a.publish("change", "17");
    await settled(b, [atA, atC], "said by b");
    await vi.waitFor(() => expect(atB).toEqual(["change a: 17"]), patience);
    await vi.waitFor(() => expect(atC).toContain("change a: 17"), patience);
    expect(atA.filter((one) => one.includes(" a:"))).toEqual([]);
  });

  check("keep one sender's order, and its topics apart", async () => {
    const join = make();
    const [a, b] = [join("a"), join("b")];
    const heard = ear(b);
    await connected(a, b);
    const said = Array.from({ length: 50 }, (_, i) =>
      i % 2 === 0 ? (["change", `${i}`] as const) : (["rates", `${i} [1, 2]`] as const),
    );
    for (const [topic, message] of said) a.publish(topic, message);
    await vi.waitFor(() => expect(heard).toEqual(said.map(([topic, message]) => `${topic} a: ${message}`)), patience);
  });

  check("of another installation are not heard", async () => {
    const join = make();
    const [a, b, stranger] = [join("a"), join("b"), join("c", "two")];
    const heard = ear(b);
    await connected(a, b, stranger);
    stranger.publish("change", "from elsewhere");
    await settled(a, [heard]);
    expect(heard.filter((one) => one.includes("elsewhere"))).toEqual([]);
  });

  check("end with their replica: it hears nothing more and what it says is nothing", async () => {
    const join = make();
    const [a, b, c] = [join("a"), join("b"), join("c")];
    const [atB, atC] = [ear(b), ear(c)];
    await connected(a, b, c);
    await b.close();
    b.publish("change", "from the grave");
    a.publish("change", "18");
    await settled(a, [atC]);
    expect(atB).toEqual([]);
    expect(atC.filter((one) => one.includes("grave"))).toEqual([]);
    expect(b.isConnected).toBe(false);
    await b.close();
  });
});

describe.skipIf(!hasRedis)("Redis", () => {
  it("can be killed, flushed and restarted: no caller waits, nothing throws, and all subscribers receive again", async () => {
    const join = overRedis();
    const [a, b] = [join("a"), join("b")];
    const heard = ear(b);
    await connected(a, b);
    await redis.kill9();
    await vi.waitFor(() => expect([a.isConnected, b.isConnected]).toEqual([false, false]), patience);
    const before = performance.now();
    for (let i = 0; i < 1000; i++) a.publish("rates", "lost");
    expect(performance.now() - before).toBeLessThan(500);
    await redis.start();
    await connected(a, b);
    await settled(a, [heard]);
    await redis.flush();
    await settled(a, [heard]);
    expect(heard.filter((one) => one.includes("lost"))).toEqual([]);
  });

  it("can drop one of a replica's two connections and is used again as soon as it is back", async () => {
    const proxy = await startProxy(redis.url);
    onTestFinished(() => proxy.stop());
    const [a, b] = ["a", "b"].map((id) =>
      keep(createRedisSignals({ url: id === "a" ? proxy.url : redis.url, id, installation: "proxy", log })),
    ) as [Signals, Signals];
    const heard = [ear(a), ear(b)];
    await connected(a, b);
    for (const which of ["other", "subscriber"] as const) {
      expect(proxy.reset(which)).toBe(1);
      await vi.waitFor(() => expect(a.isConnected).toBe(false), { ...patience, interval: 1 });
      await connected(a, b);
      await settled(a, [heard[1] as string[]]);
      await settled(b, [heard[0] as string[]]);
    }
  });

  it("is found when it appears after the start", async () => {
    const a = keep(
      createRedisSignals({ url: `redis://127.0.0.1:${await freePort()}`, id: "a", installation: "x", log }),
    );
    a.publish("change", "1");
    expect(a.isConnected).toBe(false);
    await redis.kill9();
    const join = overRedis();
    const [b, c] = [join("b"), join("c")];
    const heard = ear(c);
    await redis.start();
    await connected(b, c);
    await settled(b, [heard]);
  });
});

/** In front of Redis; resets connections by what they are for. */
async function startProxy(url: string) {
  const open = new Map<Socket, "subscriber" | "other">();
  const server = createServer((client) => {
    const behind = connect(Number(new URL(url).port), "127.0.0.1");
    open.set(client, "other");
    client.on("data", (data) => {
      if (/subscribe/i.test(String(data))) open.set(client, "subscriber");
      behind.write(data);
    });
    behind.on("data", (data) => client.write(data));
    for (const [one, other] of [
      [client, behind],
      [behind, client],
    ] as const)
      one.on("error", () => other.destroy()).on("close", () => other.destroy());
    client.on("close", () => open.delete(client));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `redis://127.0.0.1:${(server.address() as { port: number }).port}`,
    reset(which: "subscriber" | "other"): number {
      const those = [...open].filter(([, is]) => is === which);
      for (const [socket] of those) socket.resetAndDestroy();
      return those.length;
    },
    stop() {
      for (const socket of open.keys()) socket.destroy();
      server.close();
    },
  };
}
