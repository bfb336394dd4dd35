// Original file: proto/fleet/v1/fleet.proto


export interface WeightsWanted {
  'question'?: (string);
  'repo'?: (string);
}

export interface WeightsWanted__Output {
  'question': (string);
  'repo': (string);
}
