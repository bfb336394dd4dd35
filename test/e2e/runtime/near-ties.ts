// Follows a recorded greedy reply through a model server, past every place where that would have gone on otherwise: there the
// recorded token must be nearly as likely as the server's own, as it is where another CPU rounds otherwise.
import type { RuntimeProcess } from "./runtime-process.ts";

interface Alternative {
  readonly token: string;
  readonly logprob: number;
}

interface Place extends Alternative {
  readonly top_logprobs: readonly Alternative[];
}

export interface Followed {
  /** Where the server would have gone on otherwise: how much likelier, in natural logarithms, its own token is. */
  readonly gaps: readonly number[];
  /** Of the reply, in characters: less than its length where the recorded token is not among the likeliest. */
  readonly upTo: number;
}

const maxTies = 8;
const alternatives = 20;

export async function follow(
  runtime: RuntimeProcess,
  { model, prompt, reply }: { readonly model: string; readonly prompt: string; readonly reply: string },
): Promise<Followed> {
  const gaps: number[] = [];
  let upTo = 0;
  while (gaps.length <= maxTies) {
    const said = reply.slice(0, upTo);
    const { body } = await runtime.post("/v1/chat/completions", {
      model,
      messages: [{ role: "user", content: prompt }, ...(said === "" ? [] : [{ role: "assistant", content: said }])],
      temperature: 0,
      max_tokens: 48,
      logprobs: true,
      top_logprobs: alternatives,
    });
    const [choice] = body.choices;
    for (const { token, logprob, top_logprobs: tops } of choice.logprobs.content as Place[]) {
      const rest = reply.slice(upTo);
      if (rest === "") return { gaps, upTo };
      if (rest.startsWith(token)) {
        upTo += token.length;
        continue;
      }
      const recorded = tops.find((one) => one.token !== "" && rest.startsWith(one.token));
      if (!recorded) return { gaps, upTo };
      gaps.push(logprob - recorded.logprob);
      upTo += recorded.token.length;
      break;
    }
    if (upTo === reply.length) return { gaps, upTo };
    // It ended where the recorded reply goes on.
    if (choice.finish_reason === "stop" && reply.startsWith(said + choice.message.content)) return { gaps, upTo };
  }
  return { gaps, upTo };
}

/**
 * The same adapter as a converter would write it that forgets the order of the rows of q and k: the rows of their B as they must
 * stand so that reordering them gives those of the file.
 */
export function withoutPermutation(file: Buffer, heads: Readonly<Record<string, number>>): Buffer {
  const out = Buffer.from(file);
  const dataFrom = 8 + Number(file.readBigUInt64LE());
  const header: Record<string, { shape: [number, number]; data_offsets: [number, number] }> = JSON.parse(
    file.toString("utf8", 8, dataFrom),
  );
  for (const [name, { shape, data_offsets: offsets }] of Object.entries(header)) {
    const count = heads[/\.(\w+)\.lora_B\.weight$/.exec(name)?.[1] ?? ""];
    if (count === undefined) continue;
    const [rows] = shape;
    const [from, to] = offsets;
    const width = (to - from) / rows;
    const half = rows / count / 2;
    for (let head = 0; head < count; head++)
      for (let i = 0; i < half; i++)
        for (const j of [0, 1]) {
          const [now, before] = [head * 2 * half + 2 * i + j, head * 2 * half + j * half + i];
          file.copy(
            out,
            dataFrom + from + before * width,
            dataFrom + from + now * width,
            dataFrom + from + (now + 1) * width,
          );
        }
  }
  return out;
}
