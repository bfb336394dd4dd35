// Quantization of weights, from their file name.

const forms = /(?:^|[-_.])(I?Q\d(?:_[A-Z0-9]+)*|BF16|F16|FP16|F32|FP32|FP8|INT8|INT4|MXFP4)(?=[-_.]|$)/i;

/** `SmolLM2-135M-Instruct.Q4_1.gguf` -> `Q4_1`; undefined: it does not say. */
export function quantizationOf(file: string | undefined): string | undefined {
  return forms.exec(file ?? "")?.[1]?.toUpperCase();
}
