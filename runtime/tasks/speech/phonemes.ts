// Text -> phonemes by eSpeak NG, punctuation kept: the models were trained with it.
import Espeak from "@echogarden/espeak-ng-emscripten";

export interface Phonemizer {
  /** `language`: as eSpeak calls it, e.g. `en-us`. Empty if nothing can be spoken. Throws RangeError for an unknown language. */
  phonemes(text: string, language: string): string;
}

/** Punctuation at the end of words, or around them. Within a number or an address it is part of the word. */
const marks = /(\s*[;:,.!?…]+(?=\s|["»”)]|$)\s*|\s*[¡¿"«»“”()—]+\s*)/u;

export async function openPhonemizer(): Promise<Phonemizer> {
  const espeak = await Espeak();
  const worker = new espeak.eSpeakNGWorker();
  let current: string | undefined;
  const say = (text: string) => {
    const { ptr } = worker.convert_to_phonemes(text, true);
    let end = ptr;
    while (espeak.HEAPU8[end] !== 0) end += 1;
    const found = Buffer.from(espeak.HEAPU8.subarray(ptr, end)).toString("utf8");
    // `(en)` marks a word of another language, `|` a pause, `_` the joint of two phonemes.
    return found
      .replaceAll(/\([a-z-]+\)/g, "")
      .replaceAll("_", "")
      .replaceAll(/\s*\|\s*/g, ", ")
      .replaceAll(/\s+/g, " ")
      .trim();
  };
  return {
    phonemes(text, language) {
      if (current !== language) {
        if (worker.set_voice(language) !== 0) throw new RangeError(`eSpeak has no language ${language}`);
        current = language;
      }
      let out = "";
      let isSpoken = false;
      // A text of eSpeak's ends at a 0 byte.
      const whole = text.replaceAll("\0", " ").normalize("NFC");
      for (const [index, part] of whole.split(marks).entries()) {
        if (index % 2 === 1) out += `${part.trim()}${/\s$/.test(part) ? " " : ""}`;
        else if (/[\p{L}\p{N}\p{S}]/u.test(part)) {
          out += `${/^\s/.test(part) ? " " : ""}${say(part)}`;
          isSpoken = true;
        }
      }
      return isSpoken ? out.trim() : "";
    },
  };
}
