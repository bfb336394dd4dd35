// Whose request it is where proxies stand before this edge: as Fastify finds it for routes, for what meets no route.
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";

/**
 * `trusted`: addresses and networks of proxies, as the configuration has checked them. The answer is whoever the nearest proxy that is
 * not trusted says, or connected to us; an entry that is no address says nothing, nor does what stands before it.
 */
export function clientAddress(
  trusted: readonly string[],
): (request: Pick<IncomingMessage, "headers" | "socket">) => string {
  const proxies = new BlockList();
  for (const entry of trusted) {
    const [address = "", bits] = entry.split("/");
    if (bits === undefined) proxies.addAddress(address, familyOf(address));
    else proxies.addSubnet(address, Number(bits), familyOf(address));
  }
  return ({ headers, socket }) => {
    let client = socket.remoteAddress ?? "";
    const told = [headers["x-forwarded-for"] ?? []].flat().join(",").split(",").reverse();
    for (const address of told.map((one) => one.trim())) {
      if (isIP(client) === 0 || !proxies.check(client, familyOf(client)) || isIP(address) === 0) break;
      client = address;
    }
    return client;
  };
}

const familyOf = (address: string) => (isIP(address) === 6 ? "ipv6" : "ipv4");
