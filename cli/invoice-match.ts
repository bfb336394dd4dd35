// Compares an invoice file that was verified with the JSON of an invoice. Pure.
import { type InvoiceVerdict, shown } from "../proto/invoice-check.ts";
import { nano, toUsd } from "../proto/money.ts";

export const usd = (amount: bigint): string => toUsd(nano(amount)).toFixed(9);

/**
 * Returns sentences about what differs. The lines of an invoice are those of the file across keys. They name neither price version nor
 * discount id, so lines of one model and kind of use are compared by their amounts. Amounts in cents are exact numbers of nano-USD.
 */
export function invoiceProblems(verdict: InvoiceVerdict, invoice: unknown): string[] {
  const given = objectOf(invoice);
  const total = nanoOfCents(given?.["total"]);
  const lines = given?.["lines"];
  if (!given || typeof given["id"] !== "string" || total === undefined || !Array.isArray(lines))
    return ["The invoice is not the JSON of one: it has no `id`, `total` or `lines`."];
  if (given["id"] !== verdict.invoice)
    return [`The file has invoice ${verdict.invoice ?? "none"}, not ${shown(given["id"])}.`];
  const theirs: [string, bigint][] = [];
  for (const [at, line] of lines.entries()) {
    const values = objectOf(line);
    const amount = nanoOfCents(values?.["amount"]);
    if (!values || typeof values["model"] !== "string" || amount === undefined)
      return [`Line ${at + 1} of the invoice has no \`model\` or \`amount\`.`];
    theirs.push([useOf(values["model"], String(values["pricing_type"])), amount]);
  }
  const problems: string[] = [];
  if (total !== verdict.total)
    problems.push(`The invoice is over USD ${usd(total)}, the file USD ${usd(verdict.total)}.`);
  const merged = new Map<string, readonly [string, bigint]>();
  for (const { model, pricingType, priceVersion, discount, cost } of verdict.invoiceLines) {
    const use = useOf(model, pricingType);
    const name = JSON.stringify([use, String(priceVersion), discount]);
    merged.set(name, [use, (merged.get(name)?.[1] ?? 0n) + cost]);
  }
  const [own, billed] = [amountsByUse([...merged.values()]), amountsByUse(theirs)];
  for (const use of new Set([...own.keys(), ...billed.keys()])) {
    const [ours, others] = [own.get(use) ?? "nothing", billed.get(use) ?? "nothing"];
    if (ours !== others) problems.push(`The invoice has ${others} for ${shown(use)}, the file ${ours}.`);
  }
  return problems;
}

const useOf = (model: string, pricingType: string): string => `${model} (${pricingType})`;

/** Amounts other than 0 of each use, as a text: `USD 1.000000000 + 2.000000000`. */
function amountsByUse(lines: readonly (readonly [string, bigint])[]): ReadonlyMap<string, string> {
  const amounts = new Map<string, bigint[]>();
  for (const [use, amount] of lines) if (amount !== 0n) amounts.set(use, [...(amounts.get(use) ?? []), amount]);
  return new Map(
    [...amounts].map(([use, all]) => [
      use,
      `USD ${all
        .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
        .map(usd)
        .join(" + ")}`,
    ]),
  );
}

const objectOf = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;

const nanoOfCents = (cents: unknown): bigint | undefined =>
  typeof cents === "number" && Number.isFinite(cents) ? BigInt(Math.round(cents * 1e7)) : undefined;
