// A Whisper model whose decoder gives its cross attentions out, made of one that keeps them to itself: the same weights, and
// the outputs that exports with word timestamps have. They must be told of in four places: the merged decoder is an If, whose
// two branches (with and without cached keys) compute the same tensors by the same names.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bytesField, type Io, ioBytes, text } from "./onnx-file.ts";

const decoder = join("onnx", "decoder_model_merged_quantized.onnx");

/** Copies the model's folder to `out`. */
export function writeTimedWhisper(model: string, out: string): void {
  for (const folder of ["", "onnx", "samples"]) {
    mkdirSync(join(out, folder), { recursive: true });
    for (const file of readdirSync(join(model, folder), { withFileTypes: true }))
      if (file.isFile()) copyFileSync(join(model, folder, file.name), join(out, folder, file.name));
  }
  const { decoder_layers, decoder_attention_heads } = JSON.parse(readFileSync(join(model, "config.json"), "utf8"));
  const layers = Array.from({ length: decoder_layers as number }, (_, layer) => layer);
  const shape = ["batch_size", decoder_attention_heads as number, "decoder_sequence_length", "encoder_sequence_length"];
  const outputs = (nameOf: (layer: number) => string) =>
    layers.map((layer): Io => ({ name: nameOf(layer), type: "float32", shape }));
  const bytes = withOutputs(
    readFileSync(join(model, decoder)),
    outputs((layer) => `cross_attentions.${layer}`),
    outputs((layer) => `/model/decoder/layers.${layer}/encoder_attn/Softmax_output_0`),
  );
  // The copy of a file that may not be written may not be written either.
  writeFileSync(join(out, `${decoder}.new`), bytes);
  renameSync(join(out, `${decoder}.new`), join(out, decoder));
}

/** The numbers of the fields in ONNX's messages. */
const model = { graph: 7 } as const;
const graph = { node: 1, output: 12 } as const;
const node = { output: 2, opType: 4, attribute: 5 } as const;
const attribute = { graph: 6 } as const;

/** `outer`: the names outside of the If; `inner`: of the same tensors in its branches. */
function withOutputs(file: Buffer, outer: readonly Io[], inner: readonly Io[]): Buffer {
  const added = (outputs: readonly Io[]) => outputs.map((io) => bytesField(graph.output, ioBytes(io)));
  const branch = (bytes: Buffer) => Buffer.concat([bytes, ...added(inner)]);
  const choice = (bytes: Buffer) => {
    if (!fields(bytes).some(({ number, value }) => number === node.opType && value?.toString() === "If")) return bytes;
    const branches = rewritten(bytes, node.attribute, (one) => rewritten(one, attribute.graph, branch));
    return Buffer.concat([branches, ...outer.map(({ name }) => text(node.output, name))]);
  };
  return rewritten(file, model.graph, (bytes) =>
    Buffer.concat([rewritten(bytes, graph.node, choice), ...added(outer)]),
  );
}

/** The message with `change` done to each value of one of its fields. */
function rewritten(message: Buffer, wanted: number, change: (value: Buffer) => Buffer): Buffer {
  const parts = fields(message).map(({ number, value, whole }) =>
    number === wanted && value ? bytesField(number, change(value)) : whole,
  );
  return Buffer.concat(parts);
}

interface Field {
  readonly number: number;
  /** Undefined for a number. */
  readonly value: Buffer | undefined;
  readonly whole: Buffer;
}

function fields(message: Buffer): readonly Field[] {
  const found: Field[] = [];
  for (let at = 0; at < message.length; ) {
    const start = at;
    const read = () => {
      let value = 0;
      for (let scale = 1; ; scale *= 128) {
        const byte = message.readUInt8(at);
        at += 1;
        value += (byte & 0x7f) * scale;
        if (byte < 0x80) return value;
      }
    };
    const key = read();
    const wire = key & 7;
    let value: Buffer | undefined;
    if (wire === 0) read();
    else if (wire === 2) {
      const length = read();
      value = message.subarray(at, at + length);
      at += length;
    } else at += wire === 1 ? 8 : 4;
    found.push({ number: key >> 3, value, whole: message.subarray(start, at) });
  }
  return found;
}
