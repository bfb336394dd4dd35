import { Duplex, PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { createTerminals, type TerminalBounds } from "../../../../agent/ingress/terminals.ts";
import type { Shell } from "../../../../agent/reconcile/driver.ts";
import type { InstanceId } from "../../../../proto/ids.ts";
import { usualSize } from "../../../../proto/terminal-tunnel.ts";

const log = { info() {}, warn() {} };
const none = Buffer.alloc(0);

/** Terminals whose shells end when `endAll` is called. */
function terminalsOf(instances: readonly string[], bounds: Partial<TerminalBounds> = {}) {
  const { promise, resolve: endAll } = Promise.withResolvers<void>();
  const shell = async (): Promise<Shell> => ({
    stream: new PassThrough(),
    resize: async () => {},
    exitCode: async () => null,
    end: () => promise,
  });
  const terminals = createTerminals(shell, log, bounds);
  terminals.allow(new Set(instances as InstanceId[]));
  /** Returns the status, and the connection of the gateway. */
  const open = (account: string, instance: string) =>
    new Promise<readonly [status: string, connection: Duplex]>((resolve) => {
      let text = "";
      const connection = new Duplex({
        read() {},
        write(chunk, _encoding, done) {
          text += chunk;
          done();
          if (text.includes("\r\n\r\n")) resolve([text.slice(9, 12), connection]);
        },
      });
      terminals.open({ instance: instance as InstanceId, account }, usualSize, connection, none);
    });
  const statusOf = async (account: string, instance: string) => (await open(account, instance))[0];
  return { terminals, open, statusOf, endAll };
}

const closed = (connection: Duplex) =>
  new Promise<void>((resolve) => {
    connection.once("close", () => setImmediate(resolve));
    connection.destroy();
  });

describe("terminals of a host", () => {
  it("stay free for others when the shells of one account do not end", async () => {
    const own = ["a", "b", "c", "d"];
    const { open, statusOf, endAll } = terminalsOf([...own, "good"]);
    const statuses: string[] = [];
    for (let n = 0; n < 70; n++) {
      const [status, connection] = await open("u:eve", own[n % own.length] as string);
      statuses.push(status);
      await closed(connection);
    }
    expect(statuses.filter((status) => status === "101")).toHaveLength(16);
    expect(await statusOf("u:ada", "good")).toBe("101");
    expect(await statusOf("u:eve", "a")).toBe("429");
    endAll();
    await new Promise(setImmediate);
    expect(await statusOf("u:eve", "a")).toBe("101");
  });

  it("are limited by account over all its containers", async () => {
    const { open, statusOf } = terminalsOf(["a", "b", "good"], { maxPerAccount: 2 });
    const [, connection] = await open("u:eve", "a");
    expect([await statusOf("u:eve", "b"), await statusOf("u:eve", "b")]).toEqual(["101", "429"]);
    expect(await statusOf("u:ada", "good")).toBe("101");
    await closed(connection);
    expect(await statusOf("u:eve", "b")).toBe("101");
  });

  it("end with their container, and the agent waits for them when it stops", async () => {
    const { terminals, open, endAll } = terminalsOf(["a", "b"]);
    const [, gone] = await open("u:ada", "a");
    const [, left] = await open("u:ada", "b");
    terminals.allow(new Set(["b" as InstanceId]));
    expect([gone.destroyed, left.destroyed]).toEqual([true, false]);
    let isClosed = false;
    const closing = terminals.close().then(() => {
      isClosed = true;
    });
    await new Promise(setImmediate);
    expect([left.destroyed, isClosed]).toEqual([true, false]);
    endAll();
    await closing;
  });
});
