import type { TaskBody } from "../../../inference/task.ts";

/** JSON body with the model's name at the engine; omits null and undefined fields. */
export const jsonBody =
  (fields: Readonly<Record<string, unknown>>) =>
  (model: string): TaskBody => {
    const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
    const bytes = Buffer.from(JSON.stringify({ ...Object.fromEntries(given), model }));
    return { contentType: "application/json", bytes };
  };

/** Average of ordinary text. */
export const bytesPerToken = 4;
/** Maximum number of tokens that a tokeniser adds to an input. */
export const tokensPerInput = 4;
