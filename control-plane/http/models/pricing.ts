// Prices of models as the interface shows them: cents by the unit that the model is priced in, and the same in words.
import { nano, toUsd } from "../../../proto/money.ts";
import type { ServedModel } from "../../catalog/served-model.ts";
import type { ModelPricing } from "./model-record-schemas.ts";
import { perMillion, perUnit } from "./rates.ts";

export type HourRates = ReadonlyMap<string, bigint>;

/** Price for a caller: GPU time for an own deployment, units for an offered model. */
export function pricingOf(model: ServedModel, hourRates: HourRates): ModelPricing {
  return model.isPublic ? byUnits(model) : byTime(model, hourRates);
}

function byTime({ gpus }: ServedModel, hourRates: HourRates): ModelPricing {
  const hour = gpus ? toUsd(nano((hourRates.get(gpus.type) ?? 0n) * BigInt(gpus.count))) : 0;
  const text = gpus ? `$${plain(hour)} per hour of an instance` : "Nothing is charged for it";
  const what = gpus ? `${gpus.count} ${gpus.type}` : "no GPU";
  return {
    type: "uptime",
    cents_per_sec: (hour * 100) / 3600,
    short: text,
    full: gpus ? `${text} (${what}), by the second, while it runs; requests cost nothing more.` : `${text}.`,
    table: { columns: ["Instance", "USD per hour"], rows: [[what, plain(hour)]] },
  };
}

function byUnits({ rates }: ServedModel): ModelPricing {
  const { input, cached_input: cached, output } = perMillion(rates);
  const { characters = 0, audio = 0, image = 0, image_steps: steps = 0 } = perUnit(rates);
  const tokens = { cents_per_sec: 0, cents_per_input_token: input / 1e4, cents_per_output_token: output / 1e4 };
  const inWords = (unit: string, usd: number) => {
    const short = `$${plain(usd)} per ${unit}`;
    return { short, full: `${short}.`, table: { columns: ["Unit", "USD"], rows: [[unit, plain(usd)]] } };
  };
  if (characters > 0)
    return {
      type: "input_character_length",
      ...tokens,
      cents_per_input_chars: characters / 1e4,
      ...inWords("1M characters", characters),
    };
  if (audio > 0)
    return {
      type: "input_length",
      ...tokens,
      cents_per_input_sec: audio / 10,
      ...inWords("1000 seconds of audio", audio),
    };
  if (image > 0)
    return {
      type: "image_units",
      ...tokens,
      cents_per_image_unit: image * 100,
      default_width: 1024,
      default_height: 1024,
      default_iterations: steps,
      ...inWords(steps > 0 ? `image of 1024x1024 and ${steps} steps, others in proportion` : "image", image),
    };
  if (output === 0 && input > 0) return { type: "input_tokens", ...tokens, ...inWords("1M input tokens", input) };
  const short = `$${plain(input)} in, $${plain(output)} out per 1M tokens`;
  return {
    type: "tokens",
    ...tokens,
    rate_per_input_token_cached: cached / 1e4,
    short,
    full: `${short}; cached input $${plain(cached)}.`,
    table: {
      columns: ["1M tokens", "USD"],
      rows: [
        ["input", plain(input)],
        ["cached input", plain(cached)],
        ["output", plain(output)],
      ],
    },
  };
}

/** Never as an exponent. */
const plain = (usd: number): string => usd.toFixed(9).replace(/\.?0+$/, "");
