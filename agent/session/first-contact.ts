// A host without a certificate has one fact about its control plane: the hash of the authority, in its join token. This finds
// the authority with that hash in the server's chain; everything after is verified against it.
import { createHash } from "node:crypto";
import { connect, type DetailedPeerCertificate } from "node:tls";
import { serverName } from "./wire.ts";

export class OtherAuthority extends Error {
  readonly code = "join_refused";
}

const limitMs = 10_000;
const maxChain = 8;

/** Returns the authority, DER. Rejects with a sentence for a server of another installation. Sends nothing secret. */
export function fetchAuthority(address: string, caHash: string, signal: AbortSignal): Promise<Buffer> {
  const split = address.lastIndexOf(":");
  const host = address.slice(0, split).replace(/^\[|\]$/g, "");
  return new Promise((resolve, reject) => {
    // The hash verifies the chain; no other check can replace it.
    const socket = connect({
      host,
      port: Number(address.slice(split + 1)),
      servername: serverName,
      rejectUnauthorized: false,
      minVersion: "TLSv1.3",
      ALPNProtocols: ["h2"],
    });
    const end = (settle: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", stopped);
      socket.destroy();
      settle();
    };
    const stopped = () => end(() => reject(new Error("the agent stops")));
    const timer = setTimeout(() => end(() => reject(new Error(`no TLS answer within ${limitMs / 1000} s`))), limitMs);
    signal.addEventListener("abort", stopped, { once: true });
    socket.on("error", (error) => end(() => reject(error)));
    socket.once("secureConnect", () => {
      const found = chainOf(socket.getPeerCertificate(true)).find((der) => hashOf(der) === caHash);
      end(() =>
        found
          ? resolve(found)
          : reject(
              new OtherAuthority(
                `the control plane at ${address} is not the one that the join token is of: its authority has another hash. ` +
                  "Check the address, or make a token there",
              ),
            ),
      );
    });
  });
}

export const hashOf = (der: Buffer): string => createHash("sha256").update(der).digest("base64url");

function chainOf(leaf: DetailedPeerCertificate): Buffer[] {
  const chain: Buffer[] = [];
  let one: DetailedPeerCertificate | undefined = leaf;
  // A self-signed certificate is its own issuer.
  while (one?.raw && chain.length < maxChain && !chain.some((der) => der.equals(one?.raw as Buffer))) {
    chain.push(one.raw);
    one = one.issuerCertificate;
  }
  return chain;
}
