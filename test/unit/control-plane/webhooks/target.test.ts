// Server-side request forgery: the permitted URLs of a webhook, in every spelling of their address.
import { describe, expect, it } from "vitest";
import { createTargets } from "../../../../control-plane/webhooks/target.ts";
import { addressTest } from "../../../../proto/address-rules.ts";

const outside = "93.184.216.34";
const strict = { allowsPrivate: false, blocked: ["93.184.216.99", "2606:4700::/32"] };
const names: Readonly<Record<string, readonly string[]>> = {
  "good.example": [outside, "2a00:1450:4001::200e"],
  "inside.example": ["10.1.2.3"],
  "mixed.example": [outside, "127.0.0.1"],
  "mapped.example": ["::ffff:169.254.169.254"],
  "operators.example": ["93.184.216.99"],
  "nothing.example": [],
  localhost: ["127.0.0.1", "::1"],
};
const resolve = async (name: string) => {
  const found = names[name];
  if (!found) throw Object.assign(new Error("queryA"), { code: "ENOTFOUND" });
  return found;
};
const targets = createTargets(strict, resolve);
const verdict = (url: string, of = targets) =>
  of.check(url).then(
    () => "taken",
    ({ code }) => code as string,
  );

it("may be longer if its user allows it, as for adapters", async () => {
  const longer = createTargets(strict, resolve, 4096);
  expect(await verdict(`https://good.example/?${"x".repeat(4000)}`, longer)).toBe("taken");
  expect(await verdict(`https://good.example/?${"x".repeat(4096)}`, longer)).toBe("webhook_invalid");
});

describe("a webhook's URL", () => {
  it.each([
    "https://good.example/hook?x=1",
    "https://good.example:8443/",
    "https://93.184.216.34/",
    "https://[2a00:1450:4001::200e]/",
    "https://GOOD.example",
  ])("%s is taken", async (url) => expect(await verdict(url)).toBe("taken"));

  it.each(["no url", "https://", "//good.example/", `https://good.example/${"x".repeat(2048)}`])(
    "%s is no URL",
    async (url) => expect(await verdict(url)).toBe("webhook_invalid"),
  );

  it.each([
    // Scheme, port, user, fragment.
    "http://good.example/",
    "ftp://good.example/",
    "file://good.example/etc/passwd",
    "https://good.example:22/",
    "https://good.example:80/",
    "https://user@good.example/",
    "https://user:secret@good.example/",
    "https://good.example/#part",
    "https://good.example/#",
    // Loopback in every spelling that a URL parser takes.
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://0/",
    "https://127.0.0.1./",
    "https://127%2E0%2E0%2E1/",
    "https://１２７.０.０.１/",
    "https://①②⑦.⓪.⓪.①/",
    "https://127。0。0。1/",
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::127.0.0.1]/",
    // Networks inside, and the metadata service, written as IPv4 and through everything that leads to it.
    "https://10.0.0.1/",
    "https://100.64.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://0xa9fea9fe/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.0.0.1/",
    "https://192.0.2.1/",
    "https://192.88.99.1/",
    "https://192.168.1.1/",
    "https://198.18.0.1/",
    "https://198.51.100.1/",
    "https://203.0.113.1/",
    "https://224.0.0.1/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::1]/",
    "https://[2002:7f00:1::]/",
    "https://[2001::1]/",
    "https://[2001:db8::1]/",
    "https://[fc00::1]/",
    "https://[fd12:3456::1]/",
    "https://[fe80::1]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    // The operator's own list.
    "https://93.184.216.99/",
    "https://[2606:4700::1111]/",
    // Names, by what they lead to.
    "https://inside.example/",
    "https://mixed.example/",
    "https://mapped.example/",
    "https://operators.example/",
    "https://nothing.example/",
    "https://unknown.example/",
    "https://localhost/",
  ])("%s is refused", async (url) => expect(await verdict(url)).toBe("webhook_refused"));

  it("is not refused because its name cannot be resolved at the moment", async () => {
    const away = createTargets(strict, () => Promise.reject(Object.assign(new Error("x"), { code: "EAI_AGAIN" })));
    expect(await verdict("https://good.example/", away)).toBe("taken");
  });

  it("is resolved again for each call, so that a name that changed meanwhile is checked again", async () => {
    const answers = [[outside], ["127.0.0.1"]];
    const rebinding = createTargets(strict, async () => answers.shift() ?? []);
    expect(await verdict("https://good.example/", rebinding)).toBe("taken");
    await expect(rebinding.locate("https://good.example/")).rejects.toMatchObject({ code: "webhook_refused" });
  });
});

describe("with private networks allowed", () => {
  const open = createTargets({ allowsPrivate: true, blocked: ["10.9.0.0/16"] }, resolve);

  it.each(["http://127.0.0.1:1234/", "http://localhost/", "https://10.1.1.1/", "https://[fd00::1]:9/"])(
    "%s is taken",
    async (url) => expect(await verdict(url, open)).toBe("taken"),
  );

  it.each([
    "http://169.254.169.254/",
    "http://[fe80::1]/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://224.0.0.1/",
    "http://10.9.1.1/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://100.100.100.200/",
  ])("%s is still refused", async (url) => expect(await verdict(url, open)).toBe("webhook_refused"));
});

it("an invalid address is never connected to", () => {
  const may = addressTest({ allowsPrivate: true, blocked: [] });
  expect(["", "undefined", "example.com"].map(may)).toEqual([false, false, false]);
});
