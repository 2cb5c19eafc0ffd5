-- Skills with their immutable versions, and which versions of toolboxes refer to them.

-- One row per skill name ever used, kept after deletion: version numbers are never reused. A change of a skill, and a
-- toolbox version that refers to it, first write this row, so neither can overtake the other.
CREATE TABLE skill_counters (
  project TEXT NOT NULL,
  name TEXT NOT NULL,
  last_version INTEGER NOT NULL,
  epoch BIGINT NOT NULL,
  PRIMARY KEY (project, name)
);

CREATE TABLE skills (
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  id TEXT NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  default_version INTEGER NOT NULL,
  PRIMARY KEY (project, name)
);

-- `manifest` is what a version says of itself and the digests of its files; `archive` is all of them, as one ZIP.
CREATE TABLE skill_versions (
  project TEXT NOT NULL,
  skill TEXT NOT NULL,
  number INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  description TEXT NOT NULL,
  manifest BLOB NOT NULL,
  archive BLOB NOT NULL,
  PRIMARY KEY (project, skill, number),
  FOREIGN KEY (project, skill) REFERENCES skills (project, name) ON DELETE CASCADE
);

-- `pinned` is null where the reference follows the skill's default.
CREATE TABLE skill_references (
  project TEXT NOT NULL,
  toolbox TEXT NOT NULL,
  version INTEGER NOT NULL,
  skill TEXT NOT NULL,
  pinned INTEGER,
  PRIMARY KEY (project, toolbox, version, skill),
  FOREIGN KEY (project, toolbox, version)
    REFERENCES toolbox_versions (project, toolbox, number) ON DELETE CASCADE
);

CREATE INDEX skill_references_by_skill ON skill_references (project, skill);
