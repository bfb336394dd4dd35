// Original file: proto/fleet/v1/fleet.proto


export interface ContainerRules {
  'unavailable'?: (string);
  'ownImages'?: (string)[];
  'allowedImages'?: (string)[];
  'volumesUnavailable'?: (string);
  'terminals'?: (boolean);
}

export interface ContainerRules__Output {
  'unavailable': (string);
  'ownImages': (string)[];
  'allowedImages': (string)[];
  'volumesUnavailable': (string);
  'terminals': (boolean);
}
