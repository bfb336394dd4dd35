// The data path over real TLS: who is let in, to what, and that certificates change under what runs.
import { once } from "node:events";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createDial, type Dial } from "../../../control-plane/fleet/dial.ts";
import { proveDataPath } from "../../../control-plane/fleet/prover.ts";
import { createUpstreams, type Upstreams } from "../../../control-plane/inference/upstreams.ts";
import type { HostId } from "../../../proto/ids.ts";
import { type OwnCertificate, PeerRefused, peerContext } from "../../../proto/peer-tls.ts";
import { type DataPath, startDataPath, ticketKey } from "../../fakes/data-path.ts";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { gatewayCertificate, hostCertificate, newAuthority, plainDial } from "../../fakes/peers.ts";
import { ask, askOnce, type ChangingTls, changingTls, dialWith } from "../../fakes/secure-data-path.ts";

const hostId = "host000000000001" as HostId;
const authority = newAuthority();
const stranger = newAuthority();
const gateway = dialWith(gatewayCertificate(authority));
const signal = () => AbortSignal.timeout(20_000);

let engine: FakeEngine;
let tls: ChangingTls;
let path: DataPath;
let to: { readonly hostId: HostId; readonly origin: string };
let upstreams: Upstreams | undefined;

beforeEach(async () => {
  engine = await startFakeEngine({ tokens: 5 });
  tls = changingTls(hostCertificate(authority, hostId));
  path = await startDataPath(engine.origin, { tls });
  to = { hostId, origin: `https://127.0.0.1:${path.port}` };
});
afterEach(async () => {
  await upstreams?.close();
  upstreams = undefined;
  await path.close();
  await engine.close();
});

const prove = (dial = gateway, at = to) => proveDataPath(dial, { ...at, ticketKey }, signal());
const conditionOf = async (...given: Parameters<typeof prove>) => {
  const proof = await prove(...given);
  return proof.ok ? "" : proof.condition;
};

/** The status of a bare request, or the code of what ended the connection before one came. */
function knock(own: OwnCertificate | undefined, request: string, more: ConnectionOptions = {}): Promise<string> {
  const certificate = own ? { secureContext: peerContext(own) } : {};
  // What the server demands is what is looked at here.
  const socket = connect({ host: "127.0.0.1", port: path.port, rejectUnauthorized: false, ...certificate, ...more });
  return new Promise((resolve) => {
    socket.once("secureConnect", () => socket.write(`${request}\r\nhost: a\r\n\r\n`));
    socket.once("data", (bytes) => resolve(String(bytes).split(" ")[1] ?? ""));
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.once("close", () => resolve("closed"));
  }).finally(() => socket.destroy()) as Promise<string>;
}

it("serves a gateway of its installation, over one connection", async () => {
  expect(await prove()).toEqual({ ok: true });
  const { status, text } = await askOnce(gateway, to);
  expect(status).toBe(200);
  expect(text).toMatch(/data: \[DONE\]\n\n$/);
});

describe("lets nobody in", () => {
  it.each<[string, () => OwnCertificate | undefined]>([
    ["without a certificate", () => undefined],
    ["with a certificate of another installation", () => gatewayCertificate(stranger)],
    ["with a certificate that has expired", () => hostCertificate(authority, "host-2", Date.now() - 1_000)],
    [
      "with the certificate that the control plane shows to agents",
      () => {
        const { certChainPem: certificatePem, keyPem, caPem } = authority.issueOwn();
        return { certificatePem, keyPem, caPem };
      },
    ],
  ])("%s", async (_, own) => {
    expect(await knock(own(), "GET /healthz HTTP/1.1")).not.toMatch(/^\d+$/);
    expect(await knock(gatewayCertificate(authority), "GET /healthz HTTP/1.1")).toBe("200");
  });

  it("below TLS 1.3, or without TLS", async () => {
    const { certificatePem: cert, keyPem: key, caPem: ca } = gatewayCertificate(authority);
    const older = { secureContext: undefined, cert, key, ca, maxVersion: "TLSv1.2" } as const;
    expect(await knock(undefined, "GET /healthz HTTP/1.1", older)).not.toMatch(/^\d+$/);
    await expect(fetch(`http://127.0.0.1:${path.port}/healthz`)).rejects.toThrow();
  });

  it("by a session of before, which would outlive its certificate", async () => {
    const secureContext = peerContext(gatewayCertificate(authority));
    let session: Buffer | undefined;
    const isResumed = async () => {
      const more = session ? { session } : {};
      const socket = connect({ host: "127.0.0.1", port: path.port, secureContext, rejectUnauthorized: false, ...more });
      socket.once("session", (given) => {
        session ??= given;
      });
      // What is given with the handshake has come with the first answer.
      await once(socket, "secureConnect");
      socket.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
      await once(socket, "data", { signal: signal() });
      const isReused = socket.isSessionReused();
      socket.destroy();
      return isReused;
    };
    expect([await isResumed(), await isResumed()]).toEqual([false, false]);
    tls.show(hostCertificate(authority, hostId));
    expect([await isResumed(), await isResumed()]).toEqual([false, false]);
  });

  it("for longer than any other who says nothing, once the handshake is done", async () => {
    const brief = await startDataPath(engine.origin, { tls, limits: { headMs: 200 } });
    const secureContext = peerContext(gatewayCertificate(authority));
    const socket = connect({ host: "127.0.0.1", port: brief.port, secureContext, rejectUnauthorized: false });
    try {
      await once(socket, "secureConnect");
      socket.resume();
      await once(socket, "close", { signal: signal() });
    } finally {
      socket.destroy();
      await brief.close();
    }
  });

  it("before the host has joined, and then at once", async () => {
    tls.show(undefined);
    expect(await conditionOf()).toContain("has no certificate yet");
    tls.show(hostCertificate(authority, hostId));
    expect(await prove()).toEqual({ ok: true });
  });
});

describe("another host", () => {
  const other = dialWith(hostCertificate(authority, "host-2"));

  it("gets nothing but weights: no request, no proof, no shared connection", async () => {
    expect(await conditionOf(other)).toContain("answered 403");
    expect(await askOnce(other, to)).toMatchObject({ status: 403 });
    expect(engine.log).toEqual([]);
    const own = hostCertificate(authority, "host-2");
    const upgrade = "GET /frames HTTP/1.1\r\nconnection: upgrade\r\nupgrade: stoker-frames/1";
    expect(await knock(own, upgrade)).toBe("403");
    expect(await knock(own, "GET /weights/blobs/none HTTP/1.1")).toBe("404");
  });

  it("that is revoked loses what it has open, and comes in no more", async () => {
    const context = peerContext(hostCertificate(authority, "host-2"));
    const socket: TLSSocket = connect({
      host: "127.0.0.1",
      port: path.port,
      secureContext: context,
      rejectUnauthorized: false,
    });
    socket.on("error", () => {});
    await once(socket, "secureConnect");
    socket.write("GET /weights/blobs/none HTTP/1.1\r\nhost: a\r\n\r\n");
    await once(socket, "data");
    // Whether it is ended or broken off.
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    tls.revoke("host-2");
    await closed;
    expect(await knock(hostCertificate(authority, "host-2"), "GET /weights/blobs/none HTTP/1.1")).not.toMatch(/^\d+$/);
    expect(await knock(hostCertificate(authority, "host-3"), "GET /weights/blobs/none HTTP/1.1")).toBe("404");
  });
});

describe("a gateway speaks only with the host it means", () => {
  it("not with another one at its address, whose certificate is sound", async () => {
    tls.show(hostCertificate(authority, "host-2"));
    expect(await conditionOf()).toMatch(
      /^data_path_unreachable: https:\S+ shows a certificate that is that of host host-2: .*STOKER_ADVERTISE/,
    );
    await expect(askOnce(gateway, to)).rejects.toThrow("that of host host-2");
    expect(engine.log).toEqual([]);
  });

  it("not over a connection that was opened to another one at this address", async () => {
    upstreams = createUpstreams(gateway);
    expect(await ask(upstreams, to)).toMatchObject({ status: 200 });
    await expect(ask(upstreams, { ...to, hostId: "host-2" as HostId })).rejects.toThrow(`that of host ${hostId}`);
  });

  it.each<[string, () => OwnCertificate, RegExp]>([
    ["of another installation", () => hostCertificate(stranger, hostId), /another installation/],
    ["that has expired", () => hostCertificate(authority, hostId, Date.now() - 1_000), /expired certificate/],
    ["that is not a host's", () => gatewayCertificate(authority), /not a host's/],
  ])("nor with one that shows a certificate %s", async (_, own, why) => {
    tls.show(own());
    expect(await conditionOf()).toMatch(why);
    await expect(askOnce(gateway, to)).rejects.toThrow();
  });

  it("says so if the listener does not use TLS, or rejects its certificate", async () => {
    const plain = await startDataPath(engine.origin);
    try {
      expect(await conditionOf(gateway, { hostId, origin: `https://127.0.0.1:${plain.port}` })).toContain(
        "does not use TLS",
      );
    } finally {
      await plain.close();
    }
    const foreign = { ...gatewayCertificate(stranger), caPem: gatewayCertificate(authority).caPem };
    expect(await conditionOf(dialWith(foreign))).toContain("may reject this control plane's certificate");
  });
});

it("an agent without TLS is served as before, by the same client", async () => {
  const plain = await startDataPath(engine.origin);
  try {
    const at = { hostId, origin: `http://127.0.0.1:${plain.port}` };
    expect(await prove(gateway, at)).toEqual({ ok: true });
    upstreams = createUpstreams(gateway);
    expect(await ask(upstreams, at)).toMatchObject({ status: 200 });
    expect(await ask(upstreams, to)).toMatchObject({ status: 200 });
    expect(await askOnce(plainDial, at)).toMatchObject({ status: 200 });
  } finally {
    await plain.close();
  }
});

it("a host is asked at an address that another one had, which is revoked, with TLS and without", async () => {
  const secure = to;
  const plain = await startDataPath(engine.origin);
  const dial: Dial = (at) => {
    if (at.hostId === "host-0") throw new PeerRefused("is revoked: host host-0");
    return gateway(at);
  };
  const ways = createUpstreams(dial);
  try {
    for (const origin of [secure.origin, `http://127.0.0.1:${plain.port}`]) {
      await expect(ask(ways, { hostId: "host-0" as HostId, origin })).rejects.toThrow("is revoked");
      expect(await ask(ways, { hostId, origin })).toMatchObject({ status: 200 });
    }
  } finally {
    await ways.close();
    await plain.close();
  }
});

it("both certificates are renewed under a running stream; who comes next meets the new ones", async () => {
  let nowMs = Date.now();
  let issued = 0;
  const dial = createDial({
    issue: () => {
      issued += 1;
      return authority.issueGateway(`replica-${issued}`);
    },
    isRevoked: () => false,
    mayBePlain: () => false,
    nowMs: () => nowMs,
  });
  const seen: string[] = [];
  const fresh = hostCertificate(authority, hostId);
  engine.behave({ tokens: 40, tokenMs: 10 });
  upstreams = createUpstreams(dial);
  let isRenewed = false;
  const running = ask(upstreams, to, () => {
    if (isRenewed) return;
    isRenewed = true;
    tls.show(fresh);
    nowMs += 25 * 86_400_000;
  });
  const { status, text } = await running;
  expect([status, isRenewed]).toEqual([200, true]);
  expect(text.match(/"content":/g)?.length).toBeGreaterThanOrEqual(40);
  expect(await ask(upstreams, to)).toMatchObject({ status: 200 });
  expect(issued).toBe(1);
  const socket = connect({ host: "127.0.0.1", port: path.port, ...dial(to) });
  await once(socket, "secureConnect");
  seen.push(socket.getPeerX509Certificate()?.serialNumber ?? "");
  socket.destroy();
  expect(issued).toBe(2);
  const { X509Certificate } = await import("node:crypto");
  expect(seen).toEqual([new X509Certificate(fresh.certificatePem).serialNumber]);
});
