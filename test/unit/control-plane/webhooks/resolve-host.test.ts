import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { resolveHost } from "../../../../control-plane/webhooks/resolve-host.ts";
import { createTargets } from "../../../../control-plane/webhooks/target.ts";

const noHosts = { hostsFile: "/dev/null" };
const flags = { ok: 0x8180, unknown: 0x8183 };
const ofIPv4 = 1;

/** Answers each query for IPv4 with `address`, for IPv6 with nothing; a name server without an answer is silent. */
async function nameServer(answer?: { readonly flags: number; readonly address?: readonly number[] }): Promise<string> {
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    if (!answer) return;
    // A header of 12 bytes, the name with a zero behind it, then type and class.
    const end = query.indexOf(0, 12) + 5;
    const address = query.readUInt16BE(end - 4) === ofIPv4 ? answer.address : undefined;
    const header = Buffer.from(query.subarray(0, 12));
    for (const [at, value] of [answer.flags, 1, address ? 1 : 0, 0, 0].entries())
      header.writeUInt16BE(value, 2 + 2 * at);
    // The name of the question, type A, class IN, 60 s, four bytes.
    const record = address ? [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...address] : [];
    socket.send(Buffer.concat([header, query.subarray(12, end), Buffer.from(record)]), from.port, from.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  return `127.0.0.1:${socket.address().port}`;
}

describe("a receiver's name", () => {
  it("is resolved with the name servers, in both address families", async () => {
    const server = await nameServer({ flags: flags.ok, address: [10, 1, 2, 3] });
    expect(await resolveHost({ ...noHosts, servers: [server] })("hooks.example")).toEqual(["10.1.2.3"]);
  });

  it("that is unknown is refused", async () => {
    const server = await nameServer({ flags: flags.unknown });
    const resolve = resolveHost({ ...noHosts, servers: [server] });
    const targets = createTargets({ allowsPrivate: false, blocked: [] }, resolve);
    await expect(targets.check("https://hooks.example/")).rejects.toMatchObject({ code: "webhook_refused" });
  });

  it("whose servers do not respond times out, without a refusal", async () => {
    const resolve = resolveHost({ ...noHosts, servers: [await nameServer()], maxMs: 50 });
    await expect(resolve("hooks.example")).rejects.toMatchObject({ code: "ECANCELLED" });
    const targets = createTargets({ allowsPrivate: false, blocked: [] }, resolve);
    expect(await targets.check("https://hooks.example/a")).toEqual({
      url: "https://hooks.example/a",
      host: "hooks.example",
    });
  });

  it("in the hosts file needs no name server", async () => {
    const folder = await mkdtemp(join(tmpdir(), "hosts-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const hostsFile = join(folder, "hosts");
    await writeFile(hostsFile, "# 10.0.0.1 inside\n127.0.0.1\tlocalhost Inside # here\n::1 localhost\n");
    const resolve = resolveHost({ hostsFile, servers: [await nameServer()], maxMs: 50 });
    expect([await resolve("localhost"), await resolve("inside.")]).toEqual([["127.0.0.1", "::1"], ["127.0.0.1"]]);
    await expect(resolve("here")).rejects.toMatchObject({ code: "ECANCELLED" });
  });
});
