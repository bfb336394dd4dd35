import { expect, it } from "vitest";
import type { HostId } from "../../../proto/ids.ts";
import { gatewayUri, hostUri, peerOf } from "../../../proto/peer-tls.ts";

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
