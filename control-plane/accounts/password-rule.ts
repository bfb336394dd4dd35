// Rules for a new password: long enough, and not easily guessed. Existing ones are not checked.
import type { ZxcvbnFactory } from "@zxcvbn-ts/core";
import { weakPassword } from "./factor-errors.ts";

/** Characters. */
export const minPasswordLength = 12;
/** On zxcvbn's scale of 0 to 4: at least 10^8 guesses. */
const minScore = 3;
/** Its time grows faster than its input: this many characters take at most about 20 ms, 64 take 35 ms. */
const maxRatedLength = 40;

let rating: Promise<ZxcvbnFactory> | undefined;

/** `known`: what a stranger may know of the person. Throws weakPassword. */
export async function checkNewPassword(password: string, known: readonly string[]): Promise<void> {
  if ([...password].length < minPasswordLength)
    throw weakPassword(`A password must have at least ${minPasswordLength} characters. Several words are best.`);
  rating ??= loadRating().catch((error) => {
    rating = undefined;
    throw error;
  });
  const words = known.flatMap((text) => [text, ...text.split(/[^\p{L}\p{N}]+/u)]).filter((word) => word.length > 2);
  const rated = (await rating).check(password.slice(0, maxRatedLength), [...words.slice(0, 20), "stoker"]);
  if (rated.score >= minScore) return;
  throw weakPassword("This password is easy to guess. Choose several unusual words, or let a program make one.");
}

/** Loads the list of common passwords at first use: 0.1 s and 8 MB that a control plane without sign-up never needs. */
async function loadRating(): Promise<ZxcvbnFactory> {
  const [{ ZxcvbnFactory: Factory }, common] = await Promise.all([
    import("@zxcvbn-ts/core"),
    import("@zxcvbn-ts/language-common"),
  ]);
  return new Factory({ dictionary: common.dictionary, graphs: common.adjacencyGraphs, maxLength: maxRatedLength });
}
