// An agent that stops waits for no control plane that is silent.
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it } from "vitest";
import { renew } from "../../../../agent/session/enroll.ts";
import { hostCertificate, newAuthority } from "../../../fakes/peers.ts";

it("stops the request for a certificate with the agent, not with its time limit", async () => {
  const silent = createServer((socket) => socket.on("error", () => {}));
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const own = hostCertificate(newAuthority(), "host-1");
  const stopping = new AbortController();
  try {
    const asked = renew(address, { caPem: own.caPem, own }, own.keyPem, stopping.signal);
    const [socket] = await once(silent, "connection");
    stopping.abort();
    await expect(asked).rejects.toThrow(/cancel/i);
    socket.destroy();
    await expect(renew(address, { caPem: own.caPem, own }, own.keyPem, stopping.signal)).rejects.toThrow(/cancel/i);
  } finally {
    silent.close();
  }
});
