import { expect, it } from "vitest";
import { networksIn } from "../../../../agent/networks.ts";
import { isAddressAllowed, listOf } from "../../../../agent/weights/public-address.ts";
import { readPublicUrl } from "../../../../agent/weights/public-web.ts";
import { addressTest } from "../../../../control-plane/webhooks/addresses.ts";

/** The first and last of every network that either list names, and their neighbours outside. */
const addresses = [
  ...["0.0.0.0", "0.255.255.255", "1.0.0.0", "9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"],
  ...["100.63.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255", "100.128.0.0", "126.255.255.255"],
  ...["127.0.0.1", "127.255.255.255", "128.0.0.0", "169.253.255.255", "169.254.169.254", "169.255.0.0"],
  ...["172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0", "192.0.0.192", "192.0.1.0", "192.0.2.9"],
  ...["192.88.98.1", "192.88.99.1", "192.167.255.255", "192.168.0.1", "192.169.0.0", "198.17.255.255", "198.18.0.1"],
  ...[
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "203.0.114.0",
    "223.255.255.255",
    "224.0.0.1",
    "255.255.255.255",
  ],
  ...["::", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:a9fe:a9fe", "::ffff:8.8.8.8"],
  ...["64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:1::1", "2001:4860:4860::8888", "2001:db8::1"],
  ...["2002:7f00:1::", "2a00:1450:4001::200e", "fbff::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fd00::1"],
  ...["fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1", "", "example.com"],
];

it.each([false, true])("customers' URLs and webhooks reach the same addresses (private ones: %s)", (allowsPrivate) => {
  const ofWebhooks = addressTest({ allowsPrivate, blocked: [] });
  const differing = addresses.filter((one) => ofWebhooks(one) !== isAddressAllowed(one, { allowsPrivate }));
  expect(differing).toEqual([]);
  expect(addresses.filter((one) => isAddressAllowed(one, { allowsPrivate })).length).toBeGreaterThan(10);
});

it.each([
  ["no url", /is no URL/],
  [`https://good.example/${"x".repeat(4096)}`, /more than 4096 characters/],
  ["http://good.example/a", /begin with https/],
  ["file:///etc/passwd", /is no URL/],
  ["ftp://good.example/a", /begin with https/],
  ["https://good.example:22/a", /port must be 443 or 8443/],
  ["https://ada:secret@good.example/a", /a user or a password/],
  ["https://127.1/a", /not a public address/],
  ["https://2130706433/", /not a public address/],
  ["https://0xa9fea9fe/latest/meta-data/", /not a public address/],
  ["https://[::ffff:10.0.0.1]/", /not a public address/],
  ["https://[64:ff9b::7f00:1]/", /not a public address/],
])("%s is refused before anything is sent", (url, why) => {
  expect(() => readPublicUrl(url, { allowsPrivate: false })).toThrow(why);
});

it("an ordinary address is taken as it is", () => {
  expect(readPublicUrl("https://good.example/a.safetensors?key=1", { allowsPrivate: false }).search).toBe("?key=1");
});

it("what the operator blocks is blocked whatever else is allowed", () => {
  const blocked = listOf(networksIn("93.184.216.99, 10.1.0.0/16,2606:4700::/32") ?? []);
  const rules = { allowsPrivate: true, blocked };
  const ones = ["93.184.216.99", "::ffff:93.184.216.99", "10.1.2.3", "2606:4700::1", "93.184.216.98", "10.2.0.1"];
  expect(ones.filter((one) => isAddressAllowed(one, rules))).toEqual(["93.184.216.98", "10.2.0.1"]);
  expect(() => readPublicUrl("https://93.184.216.99/a", rules)).toThrow(/not a public address/);
  for (const none of ["example.com", "10.0.0.0/33", "10.0.0.0/x"]) expect(networksIn(none)).toBeUndefined();
});
