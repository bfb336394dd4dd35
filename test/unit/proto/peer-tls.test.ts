import { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { expect, it, vi } from "vitest";
import type { HostId } from "../../../proto/ids.ts";
import { gatewayUri, hostUri, onceExpired, peerOf } from "../../../proto/peer-tls.ts";

const named = (subjectaltname: string | undefined) => peerOf({ subjectaltname });

it("reads whose certificate it is from its one URI", () => {
  expect(named(`URI:${hostUri("aB3-_x" as HostId)}`)).toEqual({ kind: "host", id: "aB3-_x" });
  expect(named(`URI:${gatewayUri("replica-1")}`)).toEqual({ kind: "gateway", id: "replica-1" });
});

it.each([
  ["the control plane's own, which agents come to", "URI:spiffe://stoker/control-plane"],
  ["another installation's kind", "URI:spiffe://elsewhere/node/host-1"],
  ["a host's name", "DNS:host-1, URI:spiffe://stoker/node/host-1"],
  ["two of them", "URI:spiffe://stoker/node/host-1, URI:spiffe://stoker/gateway/replica-1"],
  ["one that is quoted", 'URI:"spiffe://stoker/node/host-1"'],
  ["nothing", undefined],
])("takes nobody for a peer by %s", (_, text) => {
  expect(named(text)).toBeUndefined();
});

it("calls when the first certificate has expired, also where that is longer than one timer runs", () => {
  vi.useFakeTimers();
  try {
    const dayMs = 86_400_000;
    const until = (days: number) => () => ({ valid_to: new Date(Date.now() + days * dayMs).toUTCString() });
    const socket = Object.assign(new TLSSocket(new Socket()), {
      getCertificate: until(90),
      getPeerCertificate: until(60),
    }) as unknown as TLSSocket;
    const expired = vi.fn();
    onceExpired(socket, 3_600_000, expired);
    vi.advanceTimersByTime(60 * dayMs);
    expect(expired).not.toHaveBeenCalled();
    vi.advanceTimersByTime(3_600_000);
    expect(expired).toHaveBeenCalledOnce();
    onceExpired(socket, 0, expired);
    socket.emit("close");
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});
