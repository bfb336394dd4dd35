/** A Piper model's name contains its voice: `rhasspy/piper-en_US-joe-medium` speaks as `en_US-joe-medium`. */
const piperVoice = /^[a-z]{2,3}_[A-Z]{2}-\w+-(x_low|low|medium|high)$/;

export const isPiperVoice = (name: string): boolean => piperVoice.test(name);

/** The one voice of a model of Piper, by the model's name; undefined: another model. */
export function onlyVoiceOf(model: string): string | undefined {
  const name = /(?:^|\/)piper-([^/]+)$/i.exec(model)?.[1];
  return name !== undefined && isPiperVoice(name) ? name : undefined;
}
