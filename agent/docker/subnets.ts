import { createHash } from "node:crypto";
import { isIPv4 } from "node:net";

const prefix = 28;
const size = 2 ** (32 - prefix);

/** All candidates for an instance's network in the order to try them: from a place of its own, so that tries rarely meet. */
export function* subnetsFor(range: string, instanceId: string): Generator<string> {
  const { base, count } = parseRange(range);
  const first = createHash("sha256").update(instanceId).digest().readUInt32BE(0) % count;
  for (let step = 0; step < count; step++) yield dotted(base + ((first + step) % count) * size);
}

/** Throws a sentence for the operator when the range is not an IPv4 network of at least one /28. */
export function parseRange(range: string): { base: number; count: number } {
  const [address = "", bits = ""] = range.split("/");
  const length = /^\d{1,2}$/.test(bits) ? Number(bits) : Number.NaN;
  if (!isIPv4(address) || !(length >= 8 && length <= prefix))
    throw new Error(`--container-subnet ${range} is no IPv4 network between /8 and /28, such as 10.231.0.0/16`);
  const number = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const span = 2 ** (32 - length);
  return { base: number - (number % span), count: span / size };
}

function dotted(number: number): string {
  return `${[24, 16, 8, 0].map((shift) => Math.floor(number / 2 ** shift) % 256).join(".")}/${prefix}`;
}
