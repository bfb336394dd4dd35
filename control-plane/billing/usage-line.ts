// Lines of a month's usage, on usage pages and invoices. Pure.
import type { KeyId } from "../../proto/ids.ts";

/** How a model is priced; its units: tokens, seconds, characters or images. */
export type PricingType = "tokens" | "uptime" | "input_length" | "input_character_length" | "image_units";

export interface LineDiscount {
  readonly id: string;
  readonly name: string;
  readonly text: string;
}

/** Usage of one model by one key at one price. */
export interface UsageLine {
  /** Empty: no key (time of a dedicated deployment). */
  readonly key: KeyId | "";
  readonly model: string;
  readonly task: string;
  readonly isPrivate: boolean;
  readonly pricingType: PricingType;
  readonly priceVersion: bigint | null;
  readonly discount: LineDiscount | null;
  /** As counted by the records: thousandths of the unit, so that milliseconds add up exactly. */
  readonly milliUnits: bigint;
  /** Nano-USD, summed from the ledger. */
  readonly cost: bigint;
}

/** Merges lines that differ only in the key. Order: by model, then price. */
export function acrossKeys(lines: readonly UsageLine[]): UsageLine[] {
  const merged = new Map<string, UsageLine>();
  for (const line of lines) {
    const name = JSON.stringify([line.model, line.pricingType, String(line.priceVersion), line.discount?.id ?? ""]);
    const known = merged.get(name);
    merged.set(
      name,
      known
        ? { ...known, milliUnits: known.milliUnits + line.milliUnits, cost: known.cost + line.cost }
        : { ...line, key: "" },
    );
  }
  return [...merged.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, line]) => line);
}

export const totalOf = (lines: readonly UsageLine[]): bigint => lines.reduce((sum, line) => sum + line.cost, 0n);
