// Replaces a picture in a prompt by a frame of special tokens with one position for each of the picture's features.
// The layout is that of Idefics3 and SmolVLM. Pure.
export interface Layout {
  readonly rows: number;
  readonly columns: number;
}

export interface ImageTokens {
  /** Text of one feature, and in an unexpanded prompt of a whole picture. */
  readonly image: string;
  readonly around: string;
  readonly whole: string;
  readonly perTile: number;
}

export const ideficsTexts = { image: "<image>", around: "<fake_token_around_image>", whole: "<global-img>" } as const;

export function imageText({ rows, columns }: Layout, { image, around, whole, perTile }: ImageTokens): string {
  const tile = image.repeat(perTile);
  let text = "";
  for (let row = 1; row <= rows; row += 1) {
    for (let column = 1; column <= columns; column += 1) text += `${around}<row_${row}_col_${column}>${tile}`;
    text += "\n";
  }
  return `${text}${rows > 0 ? "\n" : ""}${around}${whole}${tile}${around}`;
}

/** `expansions`: the tokens of each picture, in order. There must be one for each image token. */
export function placeImages(
  prompt: readonly number[],
  imageToken: number,
  expansions: readonly (readonly number[])[],
): readonly number[] {
  const rest = [...expansions];
  return prompt.flatMap((token) => (token === imageToken ? (rest.shift() ?? []) : [token]));
}
