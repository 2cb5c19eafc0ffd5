-- Which tools each principal uses, and which of them are pinned for this epoch. Both go with the toolbox.

CREATE TABLE tool_habits (
  project TEXT NOT NULL,
  toolbox TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  calls INTEGER NOT NULL,
  score DOUBLE PRECISION NOT NULL,
  total INTEGER NOT NULL,
  epochs INTEGER NOT NULL,
  best INTEGER NOT NULL,
  PRIMARY KEY (project, toolbox, principal, tool),
  FOREIGN KEY (project, toolbox) REFERENCES toolboxes (project, name) ON DELETE CASCADE
);

CREATE TABLE auto_pins (
  project TEXT NOT NULL,
  toolbox TEXT NOT NULL,
  principal TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  tools TEXT NOT NULL,
  PRIMARY KEY (project, toolbox, principal),
  FOREIGN KEY (project, toolbox) REFERENCES toolboxes (project, name) ON DELETE CASCADE
);
